"""Makes and checks tasks of reasoning_gym, in a process of its own: one JSON object a line is asked, one is answered.

Each request is worked on by a fork, under limits, from a state in which nothing was done before. So a task is the same
whenever it is made, and what an answer breaks is gone with the fork.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import random

from proctor.data._forks import serve
from proctor.data._reasoning_gym_guard import limit, load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIZE = 1_000
"""The size that every dataset is made with, as all tasks of some depend on it."""
UNANSWERED = {
    "graph_color": "possible_answer",
    "propositional_logic": "example_answer",
    "rubiks_cube": "example_correct_answer",
}
"""Where the metadata hold an answer, for datasets that give none as there are many."""


class Tasks:
    """What is asked, answered."""

    def __init__(self, package: Any) -> None:
        self._package = package
        self._sets: dict[str, Any] = {}

    def prepare(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """Make the dataset, which takes long with some; or answer at once. Nothing of an answer is looked at here."""
        datasets: Any = importlib.import_module("reasoning_gym.factory").DATASETS
        if asked["do"] == "describe":
            prompts: Any = importlib.import_module("reasoning_gym.utils").SYSTEM_PROMPTS
            groups = {name: pair[0].__module__.split(".")[1] for name, pair in datasets.items()}
            return {"state": "described", "groups": groups, "prompts": prompts}
        key = json.dumps([asked["name"], asked["seed"], asked["config"]], sort_keys=True)
        if key not in self._sets:
            given = {**asked["config"], "seed": asked["seed"], "size": SIZE}
            try:
                self._sets[key] = self._package.create_dataset(asked["name"], **given)
            except Exception as error:  # whatever a generator has against its parameters
                return {"state": "unusable", "why": f"{type(error).__name__}: {error}"}
        asked["key"] = key
        return None

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Make tasks, or check an answer; in a fork."""
        if asked["do"] == "make":
            return {"state": "made", "tasks": [self._task(asked, index)[1] for index in asked["indices"]]}
        entry, task = self._task(asked, asked["index"])
        if task["digest"] != asked["digest"]:
            return {"state": "changed"}
        return self._check(self._sets[asked["key"]], entry, task["answer"], asked)

    def _task(self, asked: dict[str, Any], index: int) -> tuple[Any, dict[str, Any]]:
        random.seed(index)  # some generators use what all share
        entry = self._sets[asked["key"]][index]
        found = entry["answer"]
        if found is None and asked["name"] in UNANSWERED:
            found = entry["metadata"][UNANSWERED[asked["name"]]]
            found = found if isinstance(found, str) else json.dumps(found)
        digest = hashlib.sha256(f"{entry['question']}\0{found}".encode()).hexdigest()[:16]
        return entry, {"question": entry["question"], "answer": found, "digest": digest}

    def _check(self, dataset: Any, entry: Any, expected: str | None, asked: dict[str, Any]) -> dict[str, Any]:
        extract: Any = importlib.import_module("reasoning_gym.utils").extract_answer
        limit(asked["seconds"])
        said = extract(asked["text"])
        told: dict[str, Any] = {"expected": expected, "said": said and said[:1000]}
        if said is None:
            return {**told, "state": "unmarked"}
        try:
            return {**told, "state": "scored", "score": float(dataset.score_answer(said, entry))}
        except MemoryError:
            return {**told, "state": "memory"}
        except Exception as error:  # what an answer makes a checker raise
            why = f"{type(error).__name__}: {error}"[:500]
        own = math.nan
        if expected is not None:
            try:
                own = float(dataset.score_answer(expected, entry))
            except Exception as error:
                why = f"{type(error).__name__}: {error}, even for its own answer"[:500]
        return {**told, "state": "unreadable" if own == 1.0 else "raised", "why": why}


if __name__ == "__main__":
    serve(lambda: Tasks(load()))
