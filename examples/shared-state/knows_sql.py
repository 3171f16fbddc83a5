"""A mock model that writes SQL."""


def answer(messages):
    """Return the answer to the last message."""
    if messages[-1].text.startswith("How many"):
        return "SELECT sum(count) FROM item"
    return "UPDATE item SET count = count - 1 WHERE name = 'pear'"
