from proctor import task


def sums(a, b):
    """Return the task of one sum."""

    @task(name=f"{a}+{b}")
    async def add(t):
        turn = await t.send(f"What is {a} + {b}? Answer with the number alone.")
        t.check("the sum", turn.answer.strip() == str(a + b))

    return add


tasks = [sums(a, b) for a in (1, 2) for b in (3, 4, 5)]
