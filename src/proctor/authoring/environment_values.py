"""What single values of an environment mean: sizes of memory, names of hosts, users, paths in a sandbox."""

from __future__ import annotations

import ipaddress
import posixpath
import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

BYTES_AT_LEAST = 1024 * 1024
"""A smaller size is a number whose unit was forgotten: no command runs in it."""
BYTES_AT_MOST = 2**62

_SIZE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?)\s*([A-Za-z]*)", re.ASCII)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}
_SIZES = "a size such as 512MiB, 2GB or 2g, or a number of bytes"


def memory_bytes(value: Any) -> int:
    """Return how many bytes a size is: a whole number of them, or a text with a unit.

    `KiB`, `MiB`, `GiB`, `TiB` and, as Docker has it, `k`, `m`, `g`, `t` count in 1024, `KB`, `MB`, `GB`, `TB` in 1000;
    capitals or not is all the same. Raises `ValueError`.
    """
    size = value if type(value) is int else _of_text(value) if isinstance(value, str) else None
    if size is None or size <= 0:
        raise ValueError(f"must be {_SIZES}, above 0")
    if size < BYTES_AT_LEAST:
        raise ValueError("must be at least 1 MiB (a number without a unit is bytes: write such as 512MiB)")
    if size > BYTES_AT_MOST:
        raise ValueError("must be at most 4 EiB")
    return size


def _of_text(text: str) -> int | None:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    unit = found[2].lower()
    base, power = 1024, _POWERS.get(unit[:1], 0)
    if unit not in ("", "b") and (not power or unit[1:] not in ("", "b", "i", "ib")):
        return None
    if unit[1:] == "b":
        base = 1000
    size = Decimal(found[1]) * base**power
    return int(size) if size == int(size) or power else None


_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NAME_CHARACTERS_AT_MOST = 253
_PORT_AT_MOST = 65535


def host(value: str) -> str:
    """Return a host as network policies have it: in small letters, and without a dot at its end.

    It is a name, `*.name` for all below it, or an address, with `:port` behind it where only that is meant; an IPv6
    address with a port stands in brackets. Raises `ValueError`, which says what is wrong with it.
    """
    if "://" in value:
        raise ValueError("must be a host without a scheme, such as api.example.com")
    if "/" in value or "@" in value or "?" in value or value.split() != [value]:
        raise ValueError("must be a host alone, such as api.example.com or 10.0.0.7:8000: no path, no user, no blanks")
    name, port = _split(value)
    if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port[:6]) <= _PORT_AT_MOST):
        raise ValueError(f"must have a port from 1 to {_PORT_AT_MOST} behind the `:`")
    checked = _name(name)
    if port is None:
        return checked
    return f"[{checked}]:{int(port)}" if ":" in checked else f"{checked}:{int(port)}"


def _split(value: str) -> tuple[str, str | None]:
    if value.startswith("["):
        name, closed, rest = value[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")) or ":" not in name:
            raise ValueError("must be an IPv6 address in brackets, such as [2001:db8::1]:443")
        return name, rest[1:] if rest else None
    if value.count(":") > 1:
        return value, None
    name, colon, port = value.partition(":")
    return name, port if colon else None


def _name(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        pass  # it is a name, which is looked at now
    if ":" in name:
        raise ValueError("must be a name or an address; an IPv6 address with a port is written as [2001:db8::1]:443")
    plain = name.lower().removesuffix(".")
    if plain == "*":
        raise ValueError("must name hosts: write `network: full` for all of them")
    labels = plain.removeprefix("*.").split(".")
    if not plain.isascii():
        raise ValueError("must be in ASCII: write the form that begins with `xn--`")
    if not all(_LABEL.fullmatch(label) for label in labels) or len(plain) > _NAME_CHARACTERS_AT_MOST:
        raise ValueError("must be a name such as api.example.com or *.example.com, or an address")
    if labels[-1].isdigit() or labels[-1].startswith("0x"):
        raise ValueError("must be a whole address, such as 10.0.0.7")
    return plain


def _user(value: str) -> str:
    if not re.fullmatch(r"[^\s:\0-][^\s:\0]*(:[^\s:\0]+)?", value):
        raise ValueError("must be a user by name or number, such as `agent`, `1000` or `1000:1000`")
    return value


def _workdir(value: str) -> str:
    if not value.startswith("/") or "\0" in value or ".." in value.split("/"):
        raise ValueError("must be an absolute path of the sandbox without `..`, such as /work")
    return "/" + posixpath.normpath(value).lstrip("/")


def _named(value: str) -> str:
    if not value or value.split() != [value] or "\0" in value:
        raise ValueError("must be a name or a path without blanks at its ends or inside of a name")
    return value


def _path(value: str) -> str:
    if not value or "\0" in value:
        raise ValueError("must be a path")
    return value


def _image(value: str) -> str:
    return _path(value) if is_path(value) else _named(value)


def variables(values: dict[str, str]) -> dict[str, str]:
    """Return variables as they are. Raises `ValueError` for what none can be called, or hold."""
    for name, value in values.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f"must have names of variables, not empty and without `=`: `{name}` is none")
        if "\0" in value:
            raise ValueError(f"must have no NUL character, as `{name}` has: no variable can hold that")
    return values


def is_path(image: str) -> bool:
    """Say whether an image is a path of this machine; else it is a name."""
    return image in (".", "..") or image.startswith(("./", "../", "/", "~"))


Memory = Annotated[
    int | str,
    PlainValidator(memory_bytes),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": BYTES_AT_LEAST}, {"type": "string"}]}),
]
"""A size; validated it is bytes."""

Host = Annotated[str, AfterValidator(host), Field(json_schema_extra={"minLength": 1})]
User = Annotated[str, AfterValidator(_user), Field(json_schema_extra={"minLength": 1})]
Workdir = Annotated[str, AfterValidator(_workdir)]
Image = Annotated[str, AfterValidator(_image), Field(json_schema_extra={"minLength": 1})]
LocalPath = Annotated[str, AfterValidator(_path), Field(json_schema_extra={"minLength": 1})]
Variables = Annotated[dict[str, str], AfterValidator(variables)]
Service = Annotated[str, AfterValidator(_named), Field(json_schema_extra={"minLength": 1})]

__all__ = [
    "Host", "Image", "LocalPath", "Memory", "Service", "User", "Variables", "Workdir", "host", "is_path",
    "memory_bytes", "variables",
]  # fmt: skip
