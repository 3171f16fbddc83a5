"""The harness `bash-agent`: a plain tool loop over any model, with a shell in the sandbox. Small enough to read."""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field

from proctor.errors import Fault
from proctor.harnesses.bash_prompts import CUT_OFF, SYSTEM, listed, system_prompt, use_a_tool
from proctor.harnesses.bash_tool import (
    SUBMIT,
    BashTool,
    Mistake,
    call_of_benchmark,
    quoted,
    sound,
    sound_call,
    submitted,
)
from proctor.plugins.api import (
    A_CALL,
    AttemptContext,
    ChatMessage,
    Collected,
    Completion,
    Message,
    ToolCall,
    Trajectory,
    Turn,
    ask,
    collected,
)

CALLS_AT_MOST = 20
"""Calls of one message that are run; a message with thousands of them is no plan."""
MISTAKES_AT_MOST = 5
"""Messages in a row of which no call could be run."""

REFUSED = ("model.invalid_request", "model.malformed")
"""What ends no work that was done."""


class BashAgentOptions(BaseModel):
    """Parameters of `bash-agent`. The limits but `max_steps` are on the whole try; None is none."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    bash: bool = True
    """Whether there is a shell, in a sandbox; without it the model has the tools of the benchmark only."""
    system: str = SYSTEM
    """The system prompt; "" is none."""
    instructions: str = ""
    """Text that follows the prompt of the task in the first message."""
    max_steps: int | None = Field(default=50, ge=1)
    """Messages of the model in one turn."""
    max_calls: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens of all kinds, what was sent again with each call among them."""
    max_cost_usd: float | None = Field(default=None, gt=0)
    allow_unknown_cost: bool = False
    """Go on with `max_cost_usd` where nobody knows what a call cost; otherwise that ends the turn."""
    command_timeout_seconds: float = Field(default=120.0, gt=0)
    """Limit of a command for which the model asks for none."""
    longest_command_timeout_seconds: float = Field(default=1800.0, gt=0)
    """What the model can ask for at most."""
    output_limit_bytes: int = Field(default=16_384, ge=256)
    """What the model is shown of the output of a command: half of it from the beginning, half from the end."""


class BashAgentHarness:
    """Lets the model run commands until it submits an answer."""

    name = "bash-agent"
    version = "1"
    isolated_attempts = True
    needs_model = True
    needs_sandbox = True
    takes_tools = True
    options: type[BaseModel] = BashAgentOptions

    def __init__(self, options: BashAgentOptions) -> None:
        self._options = options
        self.needs_sandbox = options.bash

    async def start(self, ctx: AttemptContext) -> BashAgentSession:
        """Begin a conversation; calls nothing yet."""
        return BashAgentSession(ctx, self._options)


class BashAgentSession:
    """A conversation with the model. A further turn goes on with it, and with the same sandbox."""

    def __init__(self, ctx: AttemptContext, options: BashAgentOptions) -> None:
        self._ctx = ctx
        self._options = options
        self._bash = BashTool(ctx.sandbox, ctx.progress, options) if options.bash else None
        own = (SUBMIT,) if self._bash is None else (self._bash.tool, SUBMIT)
        self._more = frozenset(tool.name for tool in ctx.tools.offered)
        if taken := [tool.name for tool in own if tool.name in self._more]:
            raise Fault("task.setup_failed", f"the benchmark has a tool `{taken[0]}`, and so has `bash-agent`")
        self._tools = (*own, *ctx.tools.offered)
        self._messages: list[ChatMessage] = []
        self._trajectory = Trajectory(
            session=ctx.attempt, agent=BashAgentHarness.name, version=BashAgentHarness.version, model=ctx.model.spec.id
        )
        self._trajectory.offer(self._tools)
        self._ids: set[str] = set()
        self._tokens_unknown = False
        self._answer: str | None = None
        if system := system_prompt(options.system, bash=options.bash, more=bool(self._more)):
            self._say("system", system)

    async def send(self, message: Message) -> Turn:
        """Let the model work until it submits, stops calling tools, or reaches a limit (`harness.limit`).

        Raises what the model raises, and `Fault` (provider.lost) where the sandbox is gone.
        """
        text = message.text
        if self._options.instructions and not any(one.role == "user" for one in self._messages):
            text = f"{text}\n\n{self._options.instructions}"
        self._say("user", text)
        self._answer = None
        said: str | None = None  # by the last message, if it called no tool
        steps = mistakes = 0
        while (limit := self._reached(steps)) is None:
            try:
                completion = await ask(self._ctx, self._messages, self._tools, trajectory=self._trajectory)
            except Fault as fault:
                if said is None or fault.code not in REFUSED:
                    raise
                self._ctx.issue(fault.code, str(fault))
                return Turn(said, steps=steps)  # it may have been the answer
            steps += 1
            self._tokens_unknown |= completion.usage is None or completion.usage == A_CALL
            if completion.tool_calls:
                said = None
                mistakes = 0 if await self._run(completion) else mistakes + 1
                if self._answer is not None:
                    return Turn(self._answer, steps=steps)
                if mistakes == MISTAKES_AT_MOST:
                    self._ctx.issue("model.malformed", f"no call of {mistakes} messages in a row could be run")
                    return Turn(None, steps=steps)
                continue
            self._trajectory.complete(completion)
            if completion.text.strip():  # endpoints refuse an empty one
                self._messages.append(ChatMessage("assistant", sound(completion.text)))
            if said is not None:
                return Turn(completion.text or said, steps=steps)
            said = completion.text
            self._say(
                "user", f"{CUT_OFF if completion.stop_reason == 'length' else ''}{use_a_tool(bash=self._options.bash)}"
            )
        self._ctx.issue("harness.limit", limit)
        return Turn(said, steps=steps)

    async def collect(self) -> Collected:
        """Return the trajectory, also of a conversation that broke off."""
        return collected(self._ctx, self._trajectory)

    async def close(self) -> None:
        """Do nothing: model and sandbox belong to others."""

    def _say(self, role: str, text: str) -> None:
        self._messages.append(ChatMessage(role, text))
        self._trajectory.say("system" if role == "system" else "user", text)

    def _reached(self, steps: int) -> str | None:
        """Say which limit is reached, or cannot be held because nobody knows what was used."""
        options, used = self._options, self._ctx.used
        tokens = used.input_tokens + used.cache_read_tokens + used.cache_write_tokens + used.output_tokens
        for most, so_far, what in (
            (options.max_steps, steps, "steps"),
            (options.max_calls, used.calls, "calls"),
            (options.max_tokens, tokens, "tokens"),
            (options.max_cost_usd, used.cost_at_least_usd, "USD"),
        ):
            if most is not None and so_far >= most:
                return f"the limit of {_number(most)} {what} was reached, with {_number(so_far)}"
        if options.max_tokens is not None and self._tokens_unknown:
            return f"the limit of {_number(options.max_tokens)} tokens cannot be held: a call reported no usage"
        unknown = used.cost_usd is None and used.calls and not options.allow_unknown_cost
        if options.max_cost_usd is not None and unknown:
            return f"the limit of {_number(options.max_cost_usd)} USD cannot be held: the cost of a call is unknown"
        return None

    async def _run(self, completion: Completion) -> bool:
        """Run the calls of a message in order; say whether one of them could be.

        The conversation gets message and results together, so that it never has a call without a result.
        """
        calls = [self._named(call) for call in completion.tool_calls]
        self._trajectory.complete(completion, calls)
        results: list[ChatMessage] = []
        ran = False
        for number, call in enumerate(calls):
            if self._answer is not None:
                result = "not run: the answer was submitted before"
            elif number >= CALLS_AT_MOST:
                result = f"not run: at most {CALLS_AT_MOST} calls of one message are"
            else:
                try:
                    result, ran = await self._result(call), True
                except Mistake as mistake:
                    self._ctx.progress(f"{quoted(call.name)} was called wrongly: {mistake}")
                    result = f"not run: {mistake}"
            self._trajectory.observe(result, call.id)
            results.append(ChatMessage("tool", sound(result), tool_call_id=sound(call.id)))
        self._messages += [ChatMessage("assistant", sound(completion.text), tuple(map(sound_call, calls))), *results]
        return ran

    async def _result(self, call: ToolCall) -> str:
        """Run one call and return its result; raises `Mistake`."""
        if call.name == SUBMIT.name:
            self._answer = submitted(call)
            return "submitted"
        if call.name in self._more:
            return await call_of_benchmark(self._ctx.tools, call)
        if self._bash is None or call.name != self._bash.tool.name:
            names = listed([tool.name for tool in self._tools])
            raise Mistake(f"there is no tool {quoted(call.name)}; there are {names}")
        return await self._bash.run(call)

    def _named(self, call: ToolCall) -> ToolCall:
        """Return a call under an id that no other call of the conversation has."""
        name, number = call.id, len(self._ids)
        while not name or name in self._ids:
            name, number = f"call{number:05}", number + 1  # nine letters and digits are what some insist on
        self._ids.add(name)
        return replace(call, id=name)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
