from proctor import TaskGroup


async def open_the_shop(sandbox):
    """Make what the tasks of the group share, once, outside of the work directory."""
    shop = (await sandbox.exec("mktemp -d")).out.strip()
    await sandbox.exec("cat > stock.csv", cwd=shop, stdin=b"apple,3\npear,5\n")
    sandbox.state["shop"] = shop


group = TaskGroup(
    members=["day/adds_plums", "day/sells_out_of_pears", "day/counts"],
    on_unavailable="stop-group",  # without what was done before, the rest makes no sense
    sandbox_setup=open_the_shop,
)
