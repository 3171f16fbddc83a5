from proctor import Experiment

experiment = Experiment(
    harness="chat",
    model={"id": "mock/script", "params": {"script": "shop_keeper:answer"}},
)
