"""How the values of options are read."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (the types of click are partly unknown)

from __future__ import annotations

import math
from typing import Any

import rich_click as click

from proctor.authoring.environment_values import memory_bytes
from proctor.config.values import SECONDS_AT_MOST


class ProviderLimit(click.ParamType[tuple[str, int]]):
    """`NAME=N`, as in `docker=8`; 0 is off."""

    name = "name=n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return name and limit."""
        name, equals, number = str(value).partition("=")
        if not name or not equals or not number.isascii() or not number.isdigit():
            self.fail(
                f"`{value}` is not of the form NAME=N with a whole number (0 is off), such as local=8", param, ctx
            )
        return name, int(number)


class OpenRate(click.ParamType[tuple[str, float]]):
    """`NAME=RATE`, as in `modal=4`; 0 is off."""

    name = "name=rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        """Return name and rate."""
        name, _, number = str(value).partition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = math.nan
        if not name or not 0 <= rate < math.inf:
            self.fail(f"`{value}` is not of the form NAME=RATE with a number (0 is off), such as local=4", param, ctx)
        return name, rate


class Amount(click.ParamType[float]):
    """A finite number above 0."""

    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        try:
            amount = float(value)
        except ValueError:
            amount = math.nan
        if not 0 < amount < math.inf:
            self.fail(f"`{value}` is not a finite number above 0", param, ctx)
        return amount


class Count(click.ParamType[int]):
    """A whole number of at least 1."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number."""
        text = str(value)
        if not text.isascii() or not text.isdigit() or int(text) < 1:
            self.fail(f"`{value}` is not a whole number of at least 1", param, ctx)
        return int(text)


class Seconds(click.ParamType[float]):
    """A finite number of seconds above 0."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            self.fail(f"`{value}` is not a finite number of seconds above 0", param, ctx)
        if seconds > SECONDS_AT_MOST:
            self.fail(f"`{value}` is above ten years, {SECONDS_AT_MOST:.0f} seconds", param, ctx)
        return seconds


class MemorySize(click.ParamType[str]):
    """A size of memory, as `16GiB`; it is kept as it was typed."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text."""
        try:
            memory_bytes(value)
        except ValueError as error:
            self.fail(f"{error}, not `{value}`", param, ctx)
        return str(value)


class Rate(click.ParamType[float]):
    """A share from 0 to 1."""

    name = "rate"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share."""
        try:
            rate = float(value)
        except ValueError:
            rate = math.nan
        if not 0 <= rate <= 1:
            self.fail(f"`{value}` is not a share from 0 to 1", param, ctx)
        return rate


COUNT = Count()
AMOUNT = Amount()
LEVELS = click.Choice(["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], case_sensitive=False)
