from proctor import task

RIDDLES = [("sum", "What is 17 + 25?", "42"), ("power", "What is 2 to the power of 10?", "1024")]


def riddle(name, question, answer):
    """Return one task; all of them share this code."""

    @task(name=name)
    async def ask(t):
        turn = await t.send(f"{question} Answer with the number alone.")
        t.check("the number is right", turn.answer.strip() == answer)

    return ask


tasks = [riddle(*each) for each in RIDDLES]
