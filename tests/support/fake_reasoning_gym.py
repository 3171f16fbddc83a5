"""A package like reasoning-gym and what of sympy it is given, with generators and checkers that do what tests need."""

from __future__ import annotations

from pathlib import Path

FILES = {
    "reasoning_gym-9.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: reasoning-gym\nVersion: 9.9\n",
    "sympy/__init__.py": "from sympy.parsing.sympy_parser import parse_expr\ndef preview(x): open('ran', 'w')\n",
    "sympy/parsing/__init__.py": "",
    "sympy/parsing/sympy_parser.py": "def parse_expr(s, local_dict=None):\n    return eval(s, {}, local_dict)\n",
    "reasoning_gym/__init__.py": "from reasoning_gym.factory import create_dataset\nimport reasoning_gym.sums.all\n",
    "reasoning_gym/factory.py": """\
DATASETS = {}
def create_dataset(name, **given):
    return DATASETS[name][0](**given)
""",
    "reasoning_gym/utils.py": """\
import re
SYSTEM_PROMPTS = {"default": "Answer in <answer> tags.", "direct": "Only <answer> tags."}
def extract_answer(text):
    found = re.findall("<answer>(.*?)</answer>", text, re.DOTALL)
    return found[-1].strip() if found else None
""",
    "reasoning_gym/sums/__init__.py": "",
    "reasoning_gym/sums/all.py": """\
import os, random, time
from sympy.parsing.sympy_parser import parse_expr
from reasoning_gym.factory import DATASETS

class Base:
    def __init__(self, seed, size, low=0):
        assert low < 100, "low must be below 100"
        self.seed, self.size, self.low, self.made = seed, size, low, 0
    def __getitem__(self, index):
        print("a generator prints")
        a = random.Random(self.seed + index).randint(self.low, 100)
        return {"question": f"{a} + {index}?", "answer": str(a + index), "metadata": {"hidden": {1, 2}}}
    def score_answer(self, answer, entry):
        return 1.0 if answer == entry["answer"] else 0.25

class Evaluated(Base):
    def score_answer(self, answer, entry):
        return 1.0 if eval(answer) == int(entry["answer"]) else 0.0

class Parsed(Base):
    def score_answer(self, answer, entry):
        return 1.0 if parse_expr(answer, {"x": 1}) == int(entry["answer"]) else 0.0

class Busy(Base):
    def score_answer(self, answer, entry):
        while answer != entry["answer"]: pass
        return 1.0

class Hungry(Base):
    def score_answer(self, answer, entry):
        return 1.0 if answer == entry["answer"] else float(len(bytearray(1 << 40)))

class Dying(Base):
    def score_answer(self, answer, entry):
        os.abort()

class Raising(Base):
    def score_answer(self, answer, entry):
        raise KeyError("always")

class Strict(Base):
    def score_answer(self, answer, entry):
        return 1.0 if int(answer) == int(entry["answer"]) else 0.0

class Touching(Base):
    def score_answer(self, answer, entry):
        try: open(answer, "w").write("x")
        except PermissionError: return 0.5
        return 1.0

class Forking(Base):
    def score_answer(self, answer, entry):
        os.system("true")

class Silent(Base):
    def __getitem__(self, index):
        return {**super().__getitem__(index), "answer": None}

class Changing(Base):
    def __getitem__(self, index):
        return {**super().__getitem__(index), "question": str(time.time_ns())}

class Shared(Base):
    def __getitem__(self, index):
        self.made += 1
        return {**super().__getitem__(index), "question": f"{random.random()} {self.made} {hash('text')}"}

class Wild(Base):
    def score_answer(self, answer, entry):
        return float("nan")

for one in Base.__subclasses__() + [Base]:
    DATASETS[one.__name__.lower()] = (one, None)
DATASETS["composite"] = DATASETS["rush_hour"] = (Base, None)
""",
}


def install(folder: Path) -> None:
    """Write the package below a folder, which is to be put on the path."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
