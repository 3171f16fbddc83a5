"""How what several layers say of an environment is put together.

Most fields are merged like all others. What the file system is comes from one layer alone, and a network policy for all
phases is one for each, so that a stronger layer can change a single phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from proctor.authoring.environment_fields import FILE_SYSTEMS, MODES
from proctor.config.layers import Layer, Tree

PART = "environment"

_SHORT = {"build": "context", "compose": "file"}
"""What may be given as a path alone, and the field that the path is of."""

PHASES = ("setup", "agent", "grade")


def environments_merged(layers: Sequence[Layer]) -> list[Layer]:
    """Return layers, weakest first, whose environments can be merged key by key."""
    found = [_spelled_out(layer) for layer in layers]
    file_system: tuple[str, Any] | None = None
    for place, layer in enumerate(found):
        named = _file_system(_environment(layer))
        if named is not None and file_system not in (None, named):
            found[:place] = [_without(weaker, *FILE_SYSTEMS) for weaker in found[:place]]
        file_system = named or file_system
    if sum("network" in _environment(layer) for layer in found) > 1:
        found = [_by_phase(layer) for layer in found]
    return found


def _environment(layer: Layer) -> Tree:
    value: Any = layer.tree.get(PART)
    return cast("Tree", value) if isinstance(value, dict) else {}


def _with(layer: Layer, own: Tree) -> Layer:
    return replace(layer, tree={**layer.tree, PART: own})


def _spelled_out(layer: Layer) -> Layer:
    """Return a layer in which a build and a compose file that are a path alone are written out."""
    own = _environment(layer)
    short = {name: {field: own[name]} for name, field in _SHORT.items() if isinstance(own.get(name), str)}
    return _with(layer, {**own, **short}) if short else layer


def _file_system(own: Tree) -> tuple[str, Any] | None:
    """Return what names a file system in an environment; one that says more of a named one names none."""
    for name in FILE_SYSTEMS:
        value: Any = own.get(name)
        if isinstance(value, dict):
            value = cast("Tree", value).get(_SHORT.get(name, ""))
        if value is not None:
            return name, value
    return None


def _without(layer: Layer, *names: str) -> Layer:
    own = _environment(layer)
    return _with(layer, {name: value for name, value in own.items() if name not in names}) if own else layer


def _by_phase(layer: Layer) -> Layer:
    """Return a layer in which a policy for all phases is said of each; what is no policy stays as it is."""
    own = _environment(layer)
    given: Any = own.get("network")
    allow = isinstance(given, dict) and cast("Tree", given).keys() == {"allow"}
    if not allow and not (isinstance(given, str) and given in MODES):
        return layer
    return _with(layer, {**own, "network": dict.fromkeys(PHASES, cast("Any", given))})


__all__ = ["environments_merged"]
