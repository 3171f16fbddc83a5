"""A day in a shop. Each task asks for one shell command and runs it in the shop that the group shares."""

from proctor import task

RULES = "The stock is in stock.csv, with lines `name,count`. Answer with one shell command and nothing else."


@task
async def adds_plums(t):
    "Plums come in."
    await in_shop(t, (await t.send(f"7 plums came in. {RULES}")).answer)
    t.check("plums are in stock", "plum,7" in await stock(t))


@task
async def sells_out_of_pears(t):
    "The pears are sold; the plums of the task before are still there."
    await in_shop(t, (await t.send(f"All pears were sold: remove their line. {RULES}")).answer)
    left = await stock(t)
    t.check("only pears are gone", left == ["apple,3", "plum,7"], expected=["apple,3", "plum,7"], actual=left)


@task
async def counts(t):
    "The agent counts what is left."
    printed = await in_shop(t, (await t.send(f"Print the number of lines. {RULES}")).answer)
    t.check("two kinds are left", printed.strip() == "2", expected="2", actual=printed.strip())


async def in_shop(t, command):
    """Run a command in the shop and return what it printed; without one that works the task makes no sense."""
    result = await t.sandbox.exec(command, cwd=t.sandbox.state["shop"])
    t.require("the command runs", result.ok)
    return result.out


async def stock(t):
    """Return the lines of the stock."""
    return (await in_shop(t, "cat stock.csv")).split()
