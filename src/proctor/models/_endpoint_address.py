"""Where a model is called and with which key, for every family behind an endpoint."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from proctor.errors import MissingPackage, PluginLoadError, UsageError, describe
from proctor.model.spec import ModelSpec

NO_KEY = "unused"
"""Stands for a key at endpoints that want none; the header of the call needs one."""

DEFAULT_TIMEOUT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Family:
    """Models of one provider's protocol: the prefix of their ids, the provider's own address, its key's variable.

    `library` is the provider's package, `client` our module that uses it, and `packages` what pip installs in a shell.
    """

    prefix: str
    base_url: str
    key_variable: str
    library: str
    client: str
    packages: str

    def is_own(self, base_url: str) -> bool:
        """Say whether an endpoint is the provider's own."""
        return urlsplit(base_url).hostname == urlsplit(self.base_url).hostname

    def address(self, spec: ModelSpec) -> tuple[str, str]:
        """Return the model's name at its endpoint, and the endpoint. Raises `UsageError`."""
        name = spec.id.removeprefix(self.prefix)
        if not name:
            raise UsageError(f"model `{spec.id}` names no model", hint=f"write `{self.prefix}NAME`")
        if spec.base_url is None:
            if not spec.id.startswith(self.prefix):
                raise UsageError(f"model `{spec.id}` has no endpoint", hint="set model.base_url")
            # Said here, so that a variable of whoever runs it does not decide what is measured.
            return name, self.base_url
        try:
            parts = urlsplit(spec.base_url)
            valid = parts.scheme in ("http", "https") and bool(parts.hostname)
            valid = valid and (parts.port is None or parts.port > 0)
            valid = valid and "@" not in parts.netloc  # a user name and password there would be written to plan.json
        except ValueError:
            valid = False
        if not valid:
            raise UsageError(f"model `{spec.id}`: model.base_url is not a web address", hint="write `https://HOST/v1`")
        return name, spec.base_url

    def key(self, spec: ModelSpec, base_url: str) -> str:
        """Return the key: that of the model, else that of the environment, else a placeholder. Raises `UsageError`."""
        key = spec.api_key or os.environ.get(self.key_variable)
        if key:
            return key
        if self.is_own(base_url):
            raise UsageError(f"model `{spec.id}` has no API key", hint=f"set model.api_key or {self.key_variable}")
        return NO_KEY

    def module(self) -> Any:
        """Import what speaks to the endpoint, only when a model is opened: it takes about a second of CPU.

        Raises `MissingPackage`, and `PluginLoadError` where what is installed does not fit.
        """
        for package in ("pydantic_ai", self.library):
            if find_spec(package) is None:
                raise MissingPackage(
                    "a model behind an endpoint", package.replace("_", "-"), install=f"pip install {self.packages}"
                )
        try:
            return import_module(self.client)
        except ImportError as error:
            raise PluginLoadError(
                f"the client of model endpoints cannot be loaded: {describe(error)}",
                hint=f"run `pip install --upgrade {self.packages}`",
            ) from error
