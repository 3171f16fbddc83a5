"""A harness: asks the model several times, and takes the answer that comes most often."""

from collections import Counter

from pydantic import BaseModel, ConfigDict, Field

from proctor.plugins.api import ChatMessage, Trajectory, Turn, ask, collected


class VotingOptions(BaseModel):
    """How often the model is asked."""

    model_config = ConfigDict(extra="forbid")

    votes: int = Field(default=3, ge=1)


class Voting:
    """Takes a vote of several independent answers."""

    name = "voting"
    version = "1"
    isolated_attempts = True
    needs_model = True
    needs_sandbox = False
    turns = 1
    options = VotingOptions

    def __init__(self, options):
        self.votes = options.votes

    async def start(self, ctx):
        """Begin a session; asks nothing yet."""
        return _Session(ctx, self.votes)


class _Session:
    def __init__(self, ctx, votes):
        self.ctx, self.votes = ctx, votes
        self.trajectory = Trajectory(session=ctx.attempt, agent="voting", version="1", model=ctx.model.spec.id)

    async def send(self, message):
        self.trajectory.say("user", message.text)
        said = Counter()
        for _ in range(self.votes):
            completion = await ask(self.ctx, [ChatMessage("user", message.text)], trajectory=self.trajectory)
            self.trajectory.complete(completion)
            said[completion.text.strip()] += 1
        return Turn(said.most_common(1)[0][0], steps=self.votes)

    async def collect(self):
        return collected(self.ctx, self.trajectory)

    async def close(self):
        pass
