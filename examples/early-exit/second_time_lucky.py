"""A mock model that is wrong the first time it is asked something, and right from then on."""

ANSWERS = {"What is 17 + 25?": "42", "What is 2 to the power of 10?": "1024"}
ASKED = set()


def answer(messages):
    """Return the answer to the last message."""
    question = messages[-1].text.partition("?")[0] + "?"
    if question not in ASKED:
        ASKED.add(question)
        return "I am not sure."
    return ANSWERS[question]
