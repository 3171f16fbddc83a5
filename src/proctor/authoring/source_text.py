"""Source as it counts in identities: without what changes nothing of what it does."""

from __future__ import annotations

import io
import tokenize
from hashlib import sha256

DIGEST_DIGITS = 16

_TEXTS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
"""Tokens that may have several lines; later Pythons have one of its own for the texts in f-strings."""


def normal(source: str) -> str:
    """Return a source without comments, empty lines and white space at the ends of lines.

    What cannot be read as Python is returned as it is.
    """
    lines = source.splitlines()
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                row, column = token.start
                lines[row - 1] = lines[row - 1][:column]
            elif token.type in _TEXTS and token.start[0] != token.end[0]:
                for row in range(token.start[0], token.end[0]):  # a text of several lines stays as it is
                    lines[row - 1] += "\0"
    except (tokenize.TokenError, SyntaxError, IndexError):
        return source
    return "\n".join(
        line.removesuffix("\0") if line.endswith("\0") else line.rstrip() for line in lines if line.strip()
    )


def digest_of_text(text: str) -> str:
    """Return the digest of a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_DIGITS]


__all__ = ["digest_of_text", "normal"]
