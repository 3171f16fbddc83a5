"""A mock model that adds, and says what each call costs."""

from proctor.model.attempt import Usage
from proctor.plugins.api import Completion


def answer(messages):
    """Return the answer to the last message, with its cost."""
    words = messages[-1].text.partition("?")[0].split()
    usage = Usage(calls=1, input_tokens=100, output_tokens=2, cost_usd=0.3)
    return Completion(text=str(int(words[2]) + int(words[4])), usage=usage, stop_reason="stop")
