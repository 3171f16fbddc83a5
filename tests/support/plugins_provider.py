"""A provider that is another one than `local` by its name alone."""

from __future__ import annotations

from proctor.providers.local import LocalProvider


class Other(LocalProvider):
    name = "other"
