"""The words of the viewer, English and Chinese; the English text is the key. Tests find those that have no partner."""

from __future__ import annotations

import re
from types import MappingProxyType

from proctor.viewer import words_attempt, words_run, words_values

LANGUAGES = ("en", "zh")

_CHINESE = MappingProxyType({**words_values.CHINESE, **words_run.CHINESE, **words_attempt.CHINESE})

_ENGLISH = MappingProxyType(
    {
        "input_tokens": "input tokens",
        "output_tokens": "output tokens",
        "cache_read_tokens": "tokens read from a cache",
        "cache_write_tokens": "tokens written to a cache",
        "reasoning_tokens": "reasoning tokens",
        "reused_passed": "reused, passed",
        "reused_failed": "reused, failed",
    }
)
"""The names of values that are not said as they are."""


_MANY = re.compile(r"\{(\w+)\} (runs|tasks|slots|tries|lanes|steps|lines|bytes|characters|attempts|pages)\b")


def in_language(language: str, text: str, ones: frozenset[str] = frozenset()) -> str:
    """Return `text` in a language, as it is where nobody has translated it; of what is named in `ones` there is one."""
    if language == "zh":
        return _CHINESE.get(text, text)
    text = _ENGLISH.get(text, text)
    return _MANY.sub(lambda found: _one(found[0]) if found[1] in ones else found[0], text) if ones else text


_PHRASE = re.compile(rf"\b(?:{'|'.join(map(re.escape, words_values.PHRASES))})\b")


def phrased(language: str, text: str) -> str:
    """Return a headline or a cost, which the rest of proctor says in English, in the language of the reader."""
    return text if language == "en" else _PHRASE.sub(lambda found: in_language(language, found[0]), text)


def _one(many: str) -> str:
    return f"{many[:-3]}y" if many.endswith("ies") else many[:-1]


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
