from proctor import task


@task(tags=["smoke"], sandbox=False)
async def is_polite(t):
    "The agent greets."
    turn = await t.send("Greet the customer in one word.")
    t.check("it is a greeting", turn.answer.strip(" .!").lower() in {"hello", "hi", "welcome"})
