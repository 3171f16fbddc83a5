"""A model and hooks for tests of configuration."""

from __future__ import annotations


def answer(messages: object) -> str:
    return "ok"


def hook() -> None:
    pass


def box_hook(sandbox: object) -> None:
    pass
