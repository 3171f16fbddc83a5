"""Everything that pyproject.toml registers can be imported."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from proctor.errors import MissingPackage
from proctor.plugins.registry import Kind


def test_groups_are_those_that_the_registry_reads(pyproject: dict[str, Any]) -> None:
    assert set(pyproject["project"]["entry-points"]) <= {kind.group for kind in Kind}


def test_everything_registered_can_be_imported(pyproject: dict[str, Any]) -> None:
    groups = {"scripts": pyproject["project"]["scripts"], **pyproject["project"]["entry-points"]}
    broken: list[str] = []
    for group, entries in groups.items():
        for name, target in entries.items():
            module, _, attribute = target.partition(":")
            try:
                found = getattr(importlib.import_module(module), attribute, None)
            except MissingPackage:
                continue  # an optional package, and the user is told which
            except ImportError as error:
                broken.append(f"{group}: {name} = {target}: {error}")
                continue
            if not callable(found):
                broken.append(f"{group}: {name} = {target}: {attribute} is {found!r}")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("kind", list(Kind))
def test_the_installed_metadata_is_that_of_this_folder(kind: Kind, pyproject: dict[str, Any]) -> None:
    """An entry point that was added after the installation is not found by anybody: `scripts/setup` mends that."""
    from importlib.metadata import distribution

    installed = {entry.name: entry.value for entry in distribution("proctor").entry_points if entry.group == kind.group}
    assert installed == pyproject["project"]["entry-points"].get(kind.group, {})
