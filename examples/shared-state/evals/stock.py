from inventory import execute

from proctor import task

TABLE = "The table is item(name, count). Answer with one SQL statement and nothing else."


@task
async def counts_all(t):
    "The agent writes a query."
    turn = await t.send(f"How many items are there in all? {TABLE}")
    t.check("the sum", execute(turn.answer) == [(8,)])


@task
async def sells_a_pear(t):
    "The agent changes the state, and what it did can be seen there."
    turn = await t.send(f"One pear was sold. {TABLE}")
    execute(turn.answer)
    [(left,)] = execute("SELECT count FROM item WHERE name = 'pear'")
    t.check("one less", left == 4)
    execute("UPDATE item SET count = 5 WHERE name = 'pear'")
