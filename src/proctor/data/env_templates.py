"""Values of variables that stand for variables of this machine: `${NAME}`, or `${NAME:-default}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_TEMPLATE = re.compile(r"\$\{([^}:]+)(?::-(.*))?\}", re.DOTALL)


def resolved(env: Mapping[str, str], host: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the values of `host` in them; a value that is no template as a whole is taken as it is.

    Raises `LookupError` for a variable that is not set and has no default.
    """
    return {name: _value(value, host) for name, value in env.items()}


def _value(value: str, host: Mapping[str, str]) -> str:
    template = _TEMPLATE.fullmatch(value)
    if template is None:
        return value
    name, default = template[1], template.group(2)
    if name not in host and default is None:
        raise LookupError(f"the variable {name} is not set on this machine")
    return host.get(name, default)


__all__ = ["resolved"]
