"""The harness `chat`: each turn is one call of the model, nothing else."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from proctor.plugins.api import AttemptContext, ChatMessage, Collected, Message, Trajectory, Turn, ask, collected


class ChatOptions(BaseModel):
    """Parameters of `chat`: the system prompt, none unless given."""

    model_config = ConfigDict(extra="forbid")

    system: str | None = None


class ChatHarness:
    """Sends the task's prompt to the model and returns its answer; further turns go on with the conversation."""

    name = "chat"
    version = "1"
    isolated_attempts = True
    needs_model = True
    needs_sandbox = False
    options: type[BaseModel] = ChatOptions

    def __init__(self, options: ChatOptions) -> None:
        self._system = options.system

    async def start(self, ctx: AttemptContext) -> ChatSession:
        """Begin a conversation; calls nothing yet."""
        return ChatSession(ctx, self._system)


class ChatSession:
    """A conversation with the model."""

    def __init__(self, ctx: AttemptContext, system: str | None) -> None:
        self._ctx = ctx
        # What is sent. A message that got no answer is in the trajectory alone: it was no part of the conversation.
        self._conversation: list[ChatMessage] = []
        self._trajectory = Trajectory(
            session=ctx.attempt, agent=ChatHarness.name, version=ChatHarness.version, model=ctx.model.spec.id
        )
        if system is not None:
            self._conversation.append(ChatMessage("system", system))
            self._trajectory.say("system", system)

    async def send(self, message: Message) -> Turn:
        """Make exactly one call, with the conversation so far; raises what the model raises."""
        asked = ChatMessage("user", message.text)
        self._trajectory.say("user", message.text)
        completion = await ask(self._ctx, [*self._conversation, asked], trajectory=self._trajectory)
        self._conversation += [asked, ChatMessage("assistant", completion.text)]
        self._trajectory.complete(completion)
        return Turn(answer=completion.text)

    async def collect(self) -> Collected:
        """Return the trajectory, also of a conversation that broke off; none where nothing was said."""
        return collected(self._ctx, self._trajectory)

    async def close(self) -> None:
        """Do nothing: the model is closed by whoever opened it."""
