"""A page as a browser takes it apart: what it shows, what it leads to, and what in it could act."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

from proctor.viewer.links import ServerLinks
from proctor.viewer.page import Asked, Page, render

ACTIVE = frozenset(
    ["iframe", "object", "embed", "base", "form", "img", "image", "video", "audio", "style", "foreignobject", "animate",
     "set", "use", "textarea", "noscript", "template", "math"]
)  # fmt: skip
"""Elements that load, run or hide something; none of them is on a page about an attempt."""
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


class Content(HTMLParser):
    """The content of a page: `text`, `links`, elements by name, and in `acts` whatever could do something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.text = ""
        self.links: list[str] = []
        self.elements: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.acts: list[str] = []
        self.feed(html)
        if unseen := _UNSEEN.search(html):
            self.acts.append(f"character {unseen[0]!r}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        given = dict(attrs)
        if tag in ACTIVE or (tag == "script" and given.get("src") != "/static/viewer.js"):
            self.acts.append(tag)
        self.ids.update([given["id"]] if given.get("id") else [])
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "srcdoc", "action", "formaction", "xlink:href"):
                self.acts.append(f"{tag} {name}={value}")
            is_icon = tag == "link" and given.get("rel") == "icon" and value == "data:,"
            if name in ("href", "src") and not is_icon and not (value or "").startswith(("/", "?", "#")):
                self.acts.append(f"{tag} {name}={value}")
            if name == "href":
                self.links.append(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def content_of(page: Page, language: str = "en", **query: str) -> Content:
    """Return a page as the server would send it."""
    return Content(render(page, Asked(ServerLinks(), language, query)))


def asked(language: str = "en", **query: str) -> Asked:
    """Return what a reader asked for."""
    return Asked(ServerLinks(), language, query)
