"""What a start says of sandboxes that a run of the same project left behind when it was killed (spec 10 I2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from proctor.cli.beforehand import beforehand, opens_sandboxes
from proctor.cli.owners import SandboxState, owner_life, sandbox_state
from proctor.cli.resolve import Resolved
from proctor.cli.rooms import Options
from proctor.cli.sandbox_labels import project_label
from proctor.cli.sandbox_providers import make_provider, within
from proctor.core.plan import RunPlan
from proctor.errors import describe
from proctor.plugins.api import Provider
from proctor.plugins.registry import Kind, names
from proctor.report.wording import plural
from proctor.store.owner import owner_if_known

LOOK_SECONDS = 1.0
"""So long a start may be held by looking; what does not answer is left out."""

CHEAP = ("local", "bwrap")
"""Providers that are asked at every start: for them it is the listing of one directory."""

log = logging.getLogger(__name__)


async def before_a_run(resolved: Sequence[Resolved], plans: Sequence[RunPlan], options: Options) -> list[str]:
    """Return what the user should know before a run starts: what the plan of it says, and what was left behind."""
    used = [one.provider for one, run_plan in zip(resolved, plans, strict=True) if opens_sandboxes(run_plan)]
    note = await orphan_note(used, Path(options.controls.results_dir))
    return [*beforehand(resolved, plans), *([] if note is None else [note])]


async def orphan_note(used: Iterable[Provider], results_dir: Path) -> str | None:
    """Return a line about sandboxes that dead runs of this project left, or None where there are none.

    Asked are the providers `used`, whatever they are, and the cheap ones. Raises nothing.
    """
    project = project_label(results_dir)
    try:
        providers = {provider.name: provider for provider in used}
        providers |= {name: make_provider(name) for name in CHEAP if name not in providers and name in _installed()}
        left = await asyncio.gather(*(_orphans(one, project) for one in providers.values()))
    except Exception as error:
        log.debug("orphans were not looked for: %s", describe(error))
        return None
    return _said([labels for found in left for labels in found])


def _installed() -> Sequence[str]:
    return names(Kind.PROVIDER)


async def _orphans(provider: Provider, project: str) -> list[Mapping[str, str]]:
    """Return the labels of what dead runs of a project left at a provider; none where it does not answer."""
    try:
        listed = await within(LOOK_SECONDS, provider.list({"project": project}), clean_seconds=0.0)
    except Exception as error:
        log.debug("provider %s was not asked for orphans: %s", provider.name, describe(error))
        return []
    here = owner_if_known()
    return [one for one in listed if sandbox_state(one, owner_life(one, here)) is SandboxState.ORPHANED]


def _said(orphans: Sequence[Mapping[str, str]]) -> str | None:
    if not orphans:
        return None
    runs = len({one.get("invocation") for one in orphans})
    of = "a run that was killed" if runs == 1 else f"{runs} runs that were killed"
    are, them = ("is", "it") if len(orphans) == 1 else ("are", "them")
    count = plural(len(orphans), "sandbox", "sandboxes")
    return f"note: {count} of {of} {are} still there: `proctor sandbox prune` removes {them}"


__all__ = ["CHEAP", "LOOK_SECONDS", "before_a_run", "orphan_note"]
