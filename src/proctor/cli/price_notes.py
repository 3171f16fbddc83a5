"""What is known before anything starts of what models cost: their prices, and the budgets that cannot hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from proctor.model.price import ModelPrice
from proctor.model.spec import Experiment, ModelSpec
from proctor.models.prices import MOCK, price_words, prices_missing
from proctor.report.wording import money
from proctor.runtime.clock import SystemClock


def priced_models(experiment: Experiment) -> dict[str, str]:
    """Return what the models of an experiment cost, in words, by what they are: `model`, `judge`.

    Mock models without a given price are left out: nobody sells them.
    """
    at = SystemClock().wall()
    shown = [(part, spec) for part, spec in _parts(experiment) if spec.price or not spec.id.startswith(MOCK)]
    return {part: price_words(spec, at) for part, spec in shown}


def price_notes(experiments: Iterable[Experiment]) -> list[str]:
    """Return warnings of models whose price is not known, and of budgets that cannot hold for that; each once."""
    return list(dict.fromkeys(text for one in experiments for text in _notes(one)))


def _notes(experiment: Experiment) -> Iterator[str]:
    at = SystemClock().wall()
    for part, spec in _parts(experiment):
        missing = prices_missing(spec, at)
        if not missing:
            continue
        whose = f"{part} `{spec.id}`" + (f" at {spec.base_url}" if spec.base_url else "")
        what = "no price" if len(missing) == len(ModelPrice.__dataclass_fields__) else f"no price of {missing[0]}"
        say = f"say `{part}.price.input` and `{part}.price.output`, in US dollars per million tokens"
        if experiment.budget_usd is not None:
            yield (
                f"the budget of {money(experiment.budget_usd)} of {experiment.name} cannot hold: {what} is known for "
                f"{whose}, and a call of unknown cost is no call that costs nothing; {say}"
            )
        elif not spec.id.startswith(MOCK):
            yield f"{what} is known for {whose}: what its calls cost will be unknown; {say}"


def _parts(experiment: Experiment) -> Iterator[tuple[str, ModelSpec]]:
    for part, spec in (("model", experiment.model), ("judge", experiment.judge)):
        if spec is not None:
            yield part, spec
