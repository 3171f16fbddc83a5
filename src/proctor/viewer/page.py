"""What a page is before it is rendered, and how it is: templates escape everything that is put into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode

from proctor.errors import ProctorError
from proctor.viewer.links import Links
from proctor.viewer.shown import FILTERS, counted, dollars, shown
from proctor.viewer.words import LANGUAGES, in_language, phrased

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True, slots=True)
class Asked:
    """What a page was asked for with: the query, the language, and where other pages are."""

    links: Links
    language: str = LANGUAGES[0]
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    runs: tuple[str, ...] = ()
    """The runs that are to be compared."""

    def say(self, text: str, **values: object) -> str:
        """Return a text of the viewer in the language of the reader."""
        shown = {name: f"{value:,}" if isinstance(value, int) else value for name, value in values.items()}
        ones = frozenset(name for name, value in shown.items() if value == "1")
        return in_language(self.language, text, ones).format(**shown)

    def phrased(self, text: str) -> str:
        """Return a headline or a cost in the language of the reader."""
        return phrased(self.language, text)

    def in_other(self, language: str) -> str:
        """Return the address of the same page in another language."""
        kept = [(name, value) for name, value in self.query.items() if name not in ("lang", "run")]
        return "?" + urlencode([*kept, *(("run", run) for run in self.runs), ("lang", language)])


@dataclass(frozen=True, slots=True)
class Page:
    """A template, what is put into it, and whether it may change while somebody looks at it."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    live: bool = False
    status: int = 200


class NotFound(ProctorError):
    """There is no such run, attempt or file, or not any more; `values` stand in the text of the viewer that says so."""

    def __init__(self, text: str, **values: str) -> None:
        super().__init__(text.format(**values) if values else text, hint="go back to the list of runs")
        self._text, self._values = text, values

    def said(self, asked: Asked) -> str:
        """Return the message in the language of the reader."""
        return asked.say(self._text, **self._values) if self._values else self.message


@cache
def _environment() -> Environment:
    from jinja2 import ChainableUndefined, Environment, PackageLoader, pass_context  # noqa: PLC0415 - only pages need it

    made = Environment(
        loader=PackageLoader("proctor.viewer"),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = cast("dict[str, Callable[..., Any]]", made.filters)  # pyright: ignore[reportUnknownMemberType]
    filters.update(FILTERS)

    def in_words(context: Mapping[str, Any], value: Any) -> str:
        return phrased(context["language"], str(value))

    def in_dollars(context: Mapping[str, Any], value: Any) -> str:
        return phrased(context["language"], dollars(value))

    def named(context: Mapping[str, Any], value: Any) -> str:
        return shown(in_language(context["language"], str(value)))

    filters.update(phrased=pass_context(in_words), dollars=pass_context(in_dollars), named=pass_context(named))
    return made


def render(page: Page, asked: Asked) -> str:
    """Return a page as HTML. What is put into it is text: nothing that a model or a sandbox wrote is ever markup."""
    template = _environment().get_template(page.template)
    return template.render(
        page.values,
        title=page.title,
        live=page.live and not asked.links.static,
        links=asked.links,
        language=asked.language,
        languages=LANGUAGES,
        in_other=asked.in_other,
        query=asked.query,
        say=asked.say,
        counted=partial(counted, language=asked.language),
    )
