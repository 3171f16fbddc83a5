"""One physical sandbox of an agent: what its hooks left for it, and which of them have to be undone (spec 03 L5)."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from proctor.authoring.places import place_of_traceback
from proctor.authoring.project_files import known_projects
from proctor.errors import Fault, SkipTask, boundary, describe
from proctor.model.attempt import Phase
from proctor.model.environment import Network
from proctor.model.events import Purpose
from proctor.plugins.api import AgentSandbox, Sandbox
from proctor.runtime.hurry import COURTESY_SECONDS, Hurry
from proctor.runtime.shield import shielded

SandboxHook = Callable[[AgentSandbox], object]
"""A function that is given a sandbox; one that is async is run to its end."""

Trouble = Callable[[str, str], None]
"""Is told what went wrong, by code and message."""

SETUP_FAILED = "sandbox.setup_failed"
TEARDOWN_FAILED = "sandbox.teardown_failed"


@dataclass(frozen=True, slots=True)
class SandboxHooks:
    """The hooks that one declaration has for sandboxes; `owner` is the declaration, for people: experiment, group."""

    owner: str
    setup: SandboxHook | None = None
    teardown: SandboxHook | None = None

    def __bool__(self) -> bool:
        """Whether there is any."""
        return self.setup is not None or self.teardown is not None


class AgentBox:
    """A sandbox that was opened for a try, with its name and its `state`; only an agent's has hooks.

    `network` is the policy that holds in it; None where that is not known.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        name: str,
        hooks: Sequence[SandboxHooks] = (),
        *,
        purpose: Purpose = Purpose.AGENT,
        network: Network | None = None,
    ) -> None:
        self.sandbox = sandbox
        self.name = name
        self.purpose = purpose
        self._network = network
        self.state: dict[str, Any] = {}
        self._hooks = tuple(filter(None, hooks))
        self._begun: list[SandboxHooks] = []
        self.prepared = False
        """Whether all of its setups have ended well: they are never called again."""

    @property
    def seen(self) -> AgentSandbox:
        """The sandbox as a hook sees it."""
        return cast("AgentSandbox", _WithState(self.sandbox, self.state))

    async def use_network(self, network: Network, phase: Phase) -> None:
        """Let `network` hold from now on, before anything of a phase runs.

        Raises a FATAL `Fault` where that cannot be done: nothing may run with more network than was declared.
        """
        if network == self._network:
            return
        self._network = None
        try:
            with boundary(phase, "provider.lost"):
                await self.sandbox.set_network(network)
        except (Fault, SkipTask) as error:
            why = f"sandbox {self.name} could not be given network `{network.mode}`: {error}"
            raise Fault("provider.lost", why, phase=phase) from error
        self._network = network

    async def prepare(self) -> None:
        """Call what sets the sandbox up, once in its life; raises `Fault`.

        A setup that began is undone by its teardown, whether it came to its end or not.
        """
        if self.prepared:
            return
        for hooks in self._hooks:
            self._begun.append(hooks)
            if hooks.setup is not None:
                with boundary(Phase.SETUP, SETUP_FAILED):
                    await _called(hooks.setup, self.seen, SETUP_FAILED, f"sandbox_setup of {hooks.owner}")
        self.prepared = True

    async def tear_down(
        self, limit_seconds: float | None, hurry: Hurry, trouble: Trouble, hold: Callable[[], None] | None = None
    ) -> None:
        """Call the teardown of each setup that began, the last one first, each within the limit or what a hurry leaves.

        `trouble` is told what goes wrong, which keeps nobody from disposing of the sandbox. `hold` is called where code
        of the project is about to be executed. To be called where no cancellation arrives.
        """
        while self._begun:
            hooks = self._begun.pop()
            if hooks.teardown is None:
                continue
            what = f"sandbox_teardown of {hooks.owner}, sandbox {self.name}"
            work = self._torn_down(hooks.teardown, hold)
            try:
                await shielded(work, limit_seconds, hurry, COURTESY_SECONDS)
            except (TimeoutError, CancelledError, Fault) as error:
                why = str(error) if isinstance(error, Fault) else describe(error)
                if isinstance(error, TimeoutError):
                    why = str(error) if hurry.begun else f"not over within {limit_seconds:g} s"
                trouble(TEARDOWN_FAILED, f"{what}: {why}")

    async def _torn_down(self, teardown: SandboxHook, hold: Callable[[], None] | None) -> None:
        if hold is not None:
            hold()
        with boundary(Phase.DISPOSE, TEARDOWN_FAILED):
            await _called(teardown, self.seen, TEARDOWN_FAILED)


async def _called(hook: SandboxHook, sandbox: AgentSandbox, code: str, what: str | None = None) -> None:
    """Call a hook. Of an exception that has no code of its own it is said where it comes from, after `what`."""
    about = "" if what is None else f"{what}: "
    try:
        result: Any = hook(sandbox)
        if hasattr(result, "__await__"):
            await result
    except SkipTask as skip:
        raise Fault(code, f"{about}it raised SkipTask, which only a task may: {describe(skip)}") from skip
    except Fault:
        raise
    except Exception as error:
        place = _place_raised(error)
        raise Fault(code, f"{about}{f'{place}: ' if place else ''}{describe(error)}") from error


def _place_raised(error: BaseException) -> str | None:
    """Return file and line of the innermost call in any project of this process from which an exception came."""
    places = (place_of_traceback(error.__traceback__, project) for project in sorted(known_projects()))
    return next(filter(None, places), None)


class _WithState:
    """A sandbox with the `state` of its life."""

    def __init__(self, sandbox: Sandbox, state: dict[str, Any]) -> None:
        self._sandbox = sandbox
        self.state = state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)
