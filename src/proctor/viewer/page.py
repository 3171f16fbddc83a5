"""What a page is before it is rendered, and how it is: templates escape everything that is put into them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from proctor.errors import ProctorError
from proctor.viewer.links import Links
from proctor.viewer.shown import FILTERS, counted
from proctor.viewer.words import LANGUAGES, in_language

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
        return in_language(self.language, text).format(**values)


@dataclass(frozen=True, slots=True)
class Page:
    """A template, what is put into it, and whether it may change while somebody looks at it."""

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    live: bool = False
    status: int = 200


class NotFound(ProctorError):
    """There is no such run, attempt or file, or not any more."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="go back to the list of runs")


@cache
def _environment() -> Environment:
    from jinja2 import ChainableUndefined, Environment, PackageLoader  # noqa: PLC0415 - only pages need it

    made = Environment(
        loader=PackageLoader("proctor.viewer"),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = cast("dict[str, Callable[..., Any]]", made.filters)  # pyright: ignore[reportUnknownMemberType]
    filters.update(FILTERS)
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
        query=asked.query,
        say=asked.say,
        counted=counted,
    )
