from inventory import prepare, remove

from proctor import Experiment

experiment = Experiment(
    tasks=["stock/"],
    harness="chat",
    model={"id": "mock/script", "params": {"script": "knows_sql:answer"}},
    max_concurrency=1,  # the lease keeps other runs out; attempts of this one share the state
    shared_state={"key": "inventory"},
    setup=prepare,
    teardown=remove,
)
