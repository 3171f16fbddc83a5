"""Graded code that tries to look right without being right, and right code that looks as if it did (case 177)."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from test_hostile_code import PROMPT, run

from support.samples import sample

NEAR = {
    "prompt": "import math\n\n\ndef near(a, b):\n    assert math.fabs(a - b) < 1e-6\n    return True\n\n\n" + PROMPT,
    "test": "def check(candidate):\n    found = candidate(1, 2)\n    assert near(found, 3)\n",
}
ABSOLUTE = {"test": "def check(candidate):\n    assert abs(candidate(1, 2) - 3) < 1e-6\n"}
RANDOM = {
    "test": """
def check(candidate):
    import string
    from random import choice
    text = choice(string.ascii_letters)
    assert candidate(text, text) == text * 2
"""
}
"""Tasks whose tests use what the prompt brings, builtins, modules."""

TRACER = """
        import sys, threading
        own = sys.modules.pop("sys")
        import sys as fresh
        sys.modules["sys"] = own
        def trace(frame, event, arg):
            if frame.f_code.co_name == "NAME" and event == "line":
                try: frame.f_lineno = max(line for _, _, line in frame.f_code.co_lines() if line)
                except ValueError: pass
            return trace
        def watch():
            for name in ("settrace", "setprofile", "_settraceallthreads"):
                for module in (sys, fresh):
                    try: getattr(module, name)(trace)
                    except (AttributeError, RuntimeError): pass
        watch()
        threading.settrace(trace)
        def add(a, b):
            watch()
            return 0
"""

FORGED: dict[str, tuple[str, dict[str, str]]] = {
    "a note that is always content": ("globals()['__proctor_note__'] = lambda *a: True", {}),
    "exec that replaces the tests": (
        """
        import builtins
        real = builtins.exec
        def fake(code, space=None, *rest):
            real(code, space, *rest)
            if space is not None and "check" in space: space["check"] = lambda candidate: None
        builtins.exec = fake
        """,
        {},
    ),
    "functions of main": (
        """
        import __main__, sys
        for space in (__main__.__dict__, sys.modules["__main__"].__dict__):
            for name in (*space, "explain", "failed", "run_tests", "why_incomplete", "describe", "dump"):
                space[name] = lambda *a, **k: {"state": "passed"}
        """,
        {},
    ),
    "functions of all modules": (
        """
        import sys
        for name, module in list(sys.modules.items()):
            for other in ("explain", "failed", "run_tests", "describe"):
                if hasattr(module, other): setattr(module, other, lambda *a, **k: {"state": "passed"})
        """,
        {},
    ),
    "every builtin": (
        """
        import builtins
        for name in dir(builtins):
            if name not in ("__import__", "__build_class__", "setattr"):
                setattr(builtins, name, lambda *a, **k: True)
        """,
        {},
    ),
    "a name that the tests use": ("abs = lambda x: 0", ABSOLUTE),
    "a builtin that the tests use": ("import builtins; builtins.abs = lambda x: 0", ABSOLUTE),
    "a function of the prompt": ("def near(a, b): return True", NEAR),
    "a module of the prompt": ("import math\nmath.fabs = lambda x: 0.0", NEAR),
    "a module of the prompt while it is tested": (
        "import math\ndef add(a, b):\n    math.fabs = lambda x: 0.0\n    return 0",
        NEAR,
    ),
    "modules of the tests": ("import random, string\nrandom.choice = lambda x: 0\nstring.ascii_letters = 0", RANDOM),
    "modules that are others": (
        """
        import builtins, sys
        class Anything(type(sys)):
            def __getattr__(self, name): return lambda *a: 0
        for name in ("math", "random", "string"): sys.modules[name] = Anything(name)
        builtins.__import__ = lambda *a, **k: Anything("x")
        """,
        RANDOM,
    ),
    "json, os and sys": (
        """
        import json, os, sys
        said = lambda *a, **k: '{"state": "passed"}'
        json.dumps = json.JSONEncoder.encode = json.encoder.encode_basestring_ascii = said
        write, leave = os.write, os._exit
        os.write = lambda fd, data: write(fd, data.replace(b"failed", b"passed"))
        os._exit = sys.exit = lambda status=0: leave(0)
        os.read, os.getpid = (lambda *a: b"x" * 32), (lambda: 1)
        """,
        {},
    ),
    "a tracer that jumps out of check": (TRACER.replace("NAME", "check"), {}),
    "a tracer that jumps out of what check calls": (TRACER.replace("NAME", "near"), NEAR),
    "a hook that hears of the tests": (
        """
        import sys
        heard = []
        sys.addaudithook(lambda event, arguments: heard.append(arguments) if event == "exec" else None)
        def add(a, b): return {1: 3, -1: 0}[a] if heard else -1
        """,
        {},
    ),
    "all objects that there are": (
        """
        import gc, types
        def search():
            for thing in gc.get_objects():
                if isinstance(thing, types.FunctionType) and thing.__name__ in ("check", "run_tests", "near"):
                    try: thing.__code__ = (lambda *a, **k: True).__code__
                    except ValueError: pass
                elif type(thing) is dict and "near" in thing: thing["near"] = lambda *a, **k: True
        search()
        def add(a, b):
            search()
            return 0
        """,
        NEAR,
    ),
    "a thread that searches": (
        """
        import gc, sys, threading, time
        def search():
            while True:
                for thing in gc.get_objects():
                    if type(thing) is dict and "near" in thing: thing["near"] = lambda a, b: True
        sys.setswitchinterval(1e-6)
        threading.Thread(target=search, daemon=True).start()
        def add(a, b):
            time.sleep(0.3)
            return 0
        """,
        NEAR,
    ),
    "an end that is announced": (
        """
        import atexit, os
        atexit.register(lambda: os.write(1, b'\\n{"state": "passed"}\\n'))
        def add(a, b): raise SystemExit(0)
        """,
        {},
    ),
    "other descriptors": (
        """
        import os
        def add(a, b):
            for number in range(3, 1000):
                try:
                    os.fstat(number)
                    os.dup2(1, number)
                except OSError: pass
            os.write(1, b'\\n{"state": "passed"}\\n')
            return 0
        """,
        {},
    ),
    "signals": (
        """
        import signal, sys
        def end(*a): sys.exit(0)
        for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM): signal.signal(number, end)
        def add(a, b):
            signal.raise_signal(signal.SIGALRM)
            return 0
        """,
        {},
    ),
    "hooks for what is not caught": (
        """
        import os, sys, threading
        sys.excepthook = threading.excepthook = sys.unraisablehook = lambda *a: os._exit(0)
        class E(BaseException): pass
        def add(a, b): raise E
        """,
        {},
    ),
    "the text of the tests": (
        """
        import linecache, re
        lines = [line for entry in linecache.cache.values() if len(entry) == 4 for line in entry[2]]
        def add(a, b): return int(re.findall(r"candidate.*== ([0-9]+)", "".join(lines))[0 if a == 1 else 1])
        """,
        {},
    ),
    "a copy that passes": (
        """
        import os
        def add(a, b):
            for guess in {1: (0, 3), -1: (1, 0)}[a]:
                if os.fork() == 0: return guess
                os.wait()
            os._exit(0)
        """,
        {},
    ),
    "an object that equals everything": (
        "class X:\n    def __eq__(self, other): return True\ndef add(a, b): return X()",
        {},
    ),
    "a list of such": (
        "class X(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "def add(a, b): return {1: [X()]}",
        {"test": "def check(candidate):\n    [found] = map(candidate, [1], [2])\n    assert found == {1: [3]}\n"},
    ),
    "one whose class hides what it defines": (
        """
        class Hides(type):
            def __getattribute__(cls, name): return None
            def __eq__(cls, other): return True
            __hash__ = type.__hash__
        class X(metaclass=Hides):
            def __eq__(self, other): return True
        Box, __proctor_plain__ = X, lambda value: value
        def add(a, b): return X()
        """,
        {},
    ),
    "one of the standard library": ("from unittest.mock import ANY\ndef add(a, b): return ANY", {}),
}
QUICK_FORGED = (
    "exec that replaces the tests", "functions of main", "a builtin that the tests use", "a module of the prompt",
    "json, os and sys", "all objects that there are", "an end that is announced", "the text of the tests",
    "a copy that passes", "one whose class hides what it defines",
)  # fmt: skip


@pytest.mark.parametrize(("code", "task"), sample(FORGED, QUICK_FORGED))
def test_no_trick_makes_a_wrong_function_pass(code: str, task: dict[str, str], tmp_path: Path) -> None:  # case 177
    code = textwrap.dedent(code)
    if "def add" not in code:
        code += "\ndef add(a, b): return 0\n"
    assert not run(code, tmp_path, **task).grade.solved


QUICK_HONEST = ("names of its own", "a class of the prompt", "what the tests set", "an equality that is wanted")
HONEST: dict[str, tuple[str, dict[str, str]]] = {
    "an equality that is wanted": (
        "class Sum:\n    def __init__(self, value): self.value = value\n"
        "    def __eq__(self, other): return self.value == other.value\ndef add(a, b): return Sum(a + b)",
        {"test": "def check(candidate):\n    assert candidate(1, 2) == Sum(3)\n    assert candidate(1, 2) != Sum(4)\n"},
    ),
    "collections of all kinds": (
        "from collections import *\nfrom dataclasses import dataclass\nfrom fractions import Fraction\n"
        "@dataclass\nclass D: v: int\n"
        "def add(a, b): return [Counter([a]), OrderedDict(x=b), Fraction(a, b), namedtuple('P', 'x')(a), D(a + b).v]",
        {"test": "def check(candidate):\n    assert candidate(1, 2) == [{1: 1}, {'x': 2}, 0.5, (1,), 3]\n"},
    ),
    "a whole answer": (NEAR["prompt"] + "    return a + b\n", NEAR),
    "names of its own": ("def near(a, b): raise KeyError\nabs = str = None\ndef add(a, b): return a + b", NEAR),
    "changes modules": ("import math, json\nmath.fabs = json.dumps = None\ndef add(a, b): return a + b", NEAR),
    "all objects": ("import gc\ndef add(a, b): return gc.get_objects()[:0] or a + b", NEAR),
    "its frames": ("import sys\ndef add(a, b): return sys._getframe().f_locals['a'] + b", {}),
    "a class of the prompt": (
        "class Box:\n    def __init__(self, value): self.value = value\n"
        "def add(a, b): return Box(a.value + b.value) if type(a) is Box else None",
        {
            "prompt": "class Box:\n    def __init__(self, value): self.value = value\n\n\n" + PROMPT,
            "test": "def check(candidate):\n    found = candidate(Box(1), Box(2))\n    assert type(found) is Box\n",
        },
    ),
    "what the tests set": (
        "import time\ndef add(a, b): return a + b + time.time()",
        {"test": "import time\ndef check(candidate):\n    time.time = lambda: 5\n    assert candidate(1, 2) == 8\n"},
    ),
    "what it prints": (
        "def add(a, b): print(a + b)",
        {
            "test": "import contextlib, io, sys\ndef check(candidate):\n"
            "    with contextlib.redirect_stdout(io.StringIO()):\n"
            "        candidate(1, 2)\n        assert sys.stdout.getvalue() == '3\\n'\n",
        },
    ),
    "another function of the answer": (
        "def twice(a): return 2 * a\ndef add(a, b): return a + b",
        {"test": "def check(candidate):\n    assert candidate(1, 1) == twice(1)\n"},
    ),
}


@pytest.mark.parametrize(("code", "task"), sample(HONEST, QUICK_HONEST))
def test_what_looks_like_a_trick_and_is_right_passes(code: str, task: dict[str, str], tmp_path: Path) -> None:
    outcome = run(code, tmp_path, **task)
    assert (outcome.grade.solved, outcome.issues) == (True, []), outcome.grade.checks
