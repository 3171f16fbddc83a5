from proctor import Experiment

experiment = Experiment(
    tasks=["sums/"],
    harness="chat",
    model={"id": "mock/script", "params": {"script": "costs_money:answer"}},
    budget=1,
    expected_cost_per_attempt=0.3,
)
