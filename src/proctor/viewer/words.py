"""The words of the viewer, English and Chinese; the English text is the key. Tests find those that have no partner."""

from __future__ import annotations

LANGUAGES = ("en", "zh")

_CHINESE: dict[str, str] = {
    "runs": "运行",
    "run": "运行",
    "attempt": "尝试",
    "passed": "通过",
    "failed": "未通过",
    "errored": "出错",
    "skipped": "跳过",
    "cancelled": "已取消",
}


def in_language(language: str, text: str) -> str:
    """Return `text` in a language; as it is where nobody has translated it."""
    return _CHINESE.get(text, text) if language == "zh" else text


def known() -> frozenset[str]:
    """Return the texts that have a translation."""
    return frozenset(_CHINESE)


def language_of(query: str | None, cookie: str | None, accepted: str) -> str:
    """Return the language of a reader: asked for, kept from before, or what the browser prefers."""
    for named in (query, cookie):
        if named in LANGUAGES:
            return named
    for part in accepted.lower().split(","):
        code = part.split(";")[0].strip().split("-")[0]
        if code in LANGUAGES:
            return code
    return LANGUAGES[0]
