from proctor import Experiment

experiment = Experiment(
    tasks=["riddles/"],
    harness="chat",
    model={"id": "mock/script", "params": {"script": "second_time_lucky:answer"}},
    attempts=5,
    early_exit=True,
    max_concurrency=1,  # so that it can be seen: no second attempt begins before the first has ended
)
