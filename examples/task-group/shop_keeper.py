"""A mock model that knows how to keep a shop."""

ANSWERS = {
    "Greet": "Hello!",
    "7 plums": "echo plum,7 >> stock.csv",
    "All pears": "sed -i '/^pear,/d' stock.csv",
    "Print": "wc -l < stock.csv",
}


def answer(messages):
    """Return the answer to the last message."""
    return next(text for beginning, text in ANSWERS.items() if messages[-1].text.startswith(beginning))
