"""The proxy variables of this machine, for sandboxes that are to have them (`environment.proxy`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote

from proctor.core.plan import RunPlan
from proctor.model.environment import EnvironmentSpec

NAMES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
"""The variables that programs look for, in this spelling or in capitals."""

_USER = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)?(?P<user>.*)@")


def proxy_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the proxy variables that are set, each in both spellings; one that is set in both keeps both values."""
    found: dict[str, str] = {}
    for name in NAMES:
        small, capitals = environ.get(name, ""), environ.get(name.upper(), "")
        if small or capitals:
            found[name] = small or capitals
            found[name.upper()] = capitals or small
    return found


def with_proxy(environment: EnvironmentSpec, environ: Mapping[str, str]) -> EnvironmentSpec:
    """Return an environment with the proxy variables; those that it declares itself are stronger, in both spellings."""
    own = {name.lower() for name in environment.env}
    passed = {name: value for name, value in proxy_variables(environ).items() if name.lower() not in own}
    return replace(environment, env={**passed, **environment.env}) if passed else environment


def proxy_credentials(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield user name and password of proxy addresses, together, and the password by itself."""
    for value in set(proxy_variables(environ).values()):
        found = _USER.match(value)
        if found is not None:
            password = found["user"].partition(":")[2]
            yield from (found["user"], password, unquote(password))


def proxy_note(plans: Sequence[RunPlan], environ: Mapping[str, str]) -> str | None:
    """Return what is to be said of the variables that sandboxes get, without the credentials in them."""
    own = (each.environment for one in plans for each in (one.experiment, *one.tasks))
    if not any(environment is not None and environment.proxy for environment in own):
        return None
    passed = {name: value for name, value in proxy_variables(environ).items() if name.islower()}
    if not passed:
        return "warning: environment.proxy is on, and no proxy variable is set here: the sandboxes get none"
    listed = ", ".join(f"{name}={_USER.sub(_hidden, value)}" for name, value in passed.items())
    return f"note: sandboxes get the proxy variables of this machine, in both spellings: {listed}"


def _hidden(found: re.Match[str]) -> str:
    return f"{found['scheme'] or ''}[redacted]@"
