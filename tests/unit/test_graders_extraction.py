"""Grader `python-tests`: how code is taken out of an answer, and how a failure is explained (no sandbox needed)."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.graders import _answer_code, _assertions
from proctor.graders import _python_tests_runner as runner

PROMPT = '''\
import math
from typing import List


def helper(x: int) -> int:
    """Help."""
    return x + 1


def f(x: int) -> int:
    """ Return x + 2.
    >>> f(1)
    3
    """
'''
TESTS = "def check(candidate):\n    assert candidate(1) == 3\n    assert candidate(2) == 4\n"
GOOD = "def f(x):\n    return x + 2\n"
BAD = "def f(x):\n    return 0\n"
PASSED = {"state": "passed"}


def solve(answer: str, prompt: str = PROMPT, tests: str = TESTS) -> dict[str, Any]:
    """Run an answer in this very process: only for code that is known."""
    sources = _answer_code.candidate_sources(answer, prompt, "f")
    return runner.run_tests(sources, runner.load_tests(tests, prompt, "f"), "f", PASSED)  # type: ignore[return-value]


def fenced(code: str, label: str = "python") -> str:
    return f"```{label}\n{code}```"


@pytest.mark.parametrize(
    "answer",
    [
        fenced(GOOD),
        fenced(GOOD, "py"),
        fenced(GOOD, ""),
        fenced(GOOD, "Python3"),
        f"~~~python\n{GOOD}~~~",
        f"Here it is:\n\n{fenced(GOOD)}\n\nIt adds two.",
        f"First a draft:\n{fenced(BAD)}\nBetter:\n{fenced(GOOD)}",
        f"{fenced(GOOD)}\nUse it so:\n{fenced('print(f(1))' + chr(10))}",
        f"{fenced(GOOD)}\nRun it:\n{fenced('python f.py' + chr(10), 'bash')}",
        f"```python\n{GOOD}",
        f"  1. item\n\n     ```python\n{textwrap.indent(GOOD, '     ')}     ```",
        f"````python\n{GOOD}# ```\n````",
        GOOD,
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\r"),
        GOOD.replace("    ", "\t"),
        "\ufeff" + GOOD,
        textwrap.indent(GOOD, "    "),
        fenced(textwrap.indent(GOOD, "    ")),
        "    return x + 2\n",
        "    return x + 2",
        "return x + 2",
        fenced("return x + 2\n"),
        "\treturn x + 2\n",
        fenced("    y = x + 1\n    return y + 1\n"),
        "    return helper(x) + 1\n",
        fenced("def f(x):\n    return helper(x) + 1\n"),
        fenced("def f(x: int) -> int:\n    return int(math.floor(x)) + 2\n"),
        fenced("def f(x) -> List[int]:\n    return x + 2\n"),
        fenced("f = lambda x: x + 2\n"),
        fenced("class f:\n    def __new__(cls, x):\n        return x + 2\n"),
        fenced(GOOD) + "\nUse it:\n" + fenced("from solution import f\nprint(f(1))\n"),
        f"Here it is:\n\n{GOOD}\nIt adds two to x.\n",
        f"from this we see how:\n\nimport math\n\n{GOOD}\nThat's all.",
        fenced("from operator import add\ndef g(x):\n    return add(x, 2)\nf = g\n"),
        fenced("from __future__ import annotations\ndef f(x: Unknown):\n    return x + 2\n"),
        fenced(PROMPT + "    return x + 2\n"),
        f"```python\n{GOOD}```\n```python\n```",
        fenced("import math\nfrom os import *\ndef two():\n    return int(math.sqrt(4))\nprint(undefined)\n")
        + "\nand then\n"
        + fenced("def f(x):\n    return x + two()\n")
        + "\nUse it:\n"
        + fenced("import nowhere as x\nfrom here import f\nassert f(1) == 3\n"),
        fenced(GOOD + "\nif __name__ == '__main__':\n    raise SystemExit\n"),
    ],
)
def test_code_is_found(answer: str) -> None:
    assert solve(answer) is PASSED


@pytest.mark.parametrize(
    "answer",
    [
        fenced(BAD),
        f"{fenced(GOOD)}\nno, rather:\n{fenced(BAD)}",
        "I do not know.",
        fenced(""),
        "```",
        "x + 2",
        "def g(x):\n    return x + 2\n",
        "pass",
        "\0",
        GOOD + "\0",
        "\ud800",
        "def f(x):\n    return '\ud800'\n",
        "(" * 5000,
        "-" * 5000 + "1",
    ],
)
def test_what_is_no_solution_fails_and_says_where(answer: str) -> None:  # case 126
    found = solve(answer)
    assert found["state"] == "failed"
    assert found["label"]


@settings(deadline=None, max_examples=150)
@given(st.text(alphabet=st.characters(codec=None), max_size=200) | st.text("`~ \n\tpython def f(x):\r\0", max_size=80))
def test_no_answer_breaks_the_extraction(answer: str) -> None:
    sources = _answer_code.candidate_sources(answer, PROMPT, "f")
    assert all(isinstance(text, str) for _, text in sources)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text("ab=1 #\n", max_size=30), min_size=1, max_size=4))
def test_every_block_is_found(contents: list[str]) -> None:
    text = "words\n".join(f"```python\n{content}\n```\n" for content in contents)
    assert _answer_code.fenced_blocks(text) == [("python", content + "\n") for content in contents]


def test_of_other_blocks_only_what_is_needed_is_run() -> None:
    draft = "import os\ndef helper(x):\n    return os.path.join(x)\ndef other():\n    pass\nhelper('x')\n"
    answer = f"{fenced(draft)}\n" + fenced("def f(x):\n    other = helper\n    return other(x)\n")
    sources = dict(_answer_code.candidate_sources(answer, "", "f"))
    assert sources["helpers"] == "import os\ndef helper(x):\n    return os.path.join(x)"
    assert _answer_code.helpers(fenced(GOOD), GOOD) == ""


EQUAL = (
    "class X:\n    def __init__(self, v=0): self.v = v\n    def __eq__(self, other): return WHAT\n    __hash__ = None\n"
)


@pytest.mark.parametrize(
    ("returned", "assertion"),
    [
        ("X()", "candidate(1) == 3"),
        ("X()", "3 == candidate(1)"),
        ("X()", "not candidate(1) != 3"),
        ("[X()]", "candidate(1) == [3]"),
        ("{'a': (X(),)}", "candidate(1) == {'a': (3,)}"),
        ("X()", "candidate(1) in [3]"),
        ("__import__('unittest.mock').mock.ANY", "candidate(1) == 3"),
    ],
)
def test_a_value_that_equals_everything_equals_nothing(returned: str, assertion: str) -> None:  # case 177
    code = EQUAL.replace("WHAT", "True") + f"def f(x):\n    return {returned}\n"
    for answer in (
        fenced(code),
        fenced(code.partition("def f")[0]) + "\n" + fenced(f"def f(x):\n    return {returned}\n"),
    ):
        found = solve(answer, tests=f"def check(candidate):\n    assert {assertion}\n")
        assert found is not PASSED
        assert "OwnEquality" in found["actual"]


def test_an_equality_that_the_tests_speak_of_is_that_of_the_answer() -> None:
    code = EQUAL.replace("WHAT", "self.v == other.v") + "def f(x):\n    return X(x)\n"
    assert solve(fenced(code), tests="def check(candidate):\n    assert candidate(1) == X(1) != X(2)\n") is PASSED


def test_the_last_block_that_defines_the_function_is_taken() -> None:
    answer = f"{fenced(GOOD)}{chr(10)}{fenced('x = f(1)' + chr(10))}"
    assert _answer_code.code_of(answer, "f") == GOOD
    assert _answer_code.code_of(answer, "other") == "x = f(1)\n"


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (PROMPT, PROMPT[: PROMPT.index("def f(")].rstrip("\n") + "\n"),
        ("import os\n@decorated\ndef f(x):\n", "import os\n"),
        ("async def f(x):\n", "\n"),
        ("import os\nclass f:\n", "import os\n"),
        ("import os\n", "import os\n"),
        ("", ""),
    ],
)
def test_the_preamble_is_what_stands_before_the_function(prompt: str, expected: str) -> None:
    assert _answer_code.preamble(prompt, "f") == expected


@pytest.mark.parametrize(
    ("assertion", "expected", "actual"),
    [
        ("assert candidate(1) == 3", "3", "0"),
        ("assert candidate(1) == 3, 'three'", "3", "0"),
        ("assert 3 < candidate(1)", "< 0", "3"),
        ("assert candidate(1) in [3, 4]", "in [3, 4]", "0"),
        ("assert candidate(1)", "something true", "0"),
        ("assert not candidate(1) + 1", "something false", "1"),
        ("assert 0 == candidate(1) == 3", "something true", "False"),
        ("assert candidate(\n        1\n    ) == (\n        3\n    )", "3", "0"),
        ("for i in range(3):\n        assert candidate(i) == i", "1", "0"),
    ],
)
def test_a_failed_assertion_tells_what_it_compared(assertion: str, expected: str, actual: str) -> None:
    found = solve(fenced(BAD), tests=f"def check(candidate):\n    {assertion}\n")
    assert (found["expected"], found["actual"]) == (expected, actual)
    assert found["source"] in ("test:2", "test:3")
    assert found["label"].startswith("assert")


def test_an_exception_of_the_code_is_told_with_the_line_of_the_test() -> None:
    found = solve("def f(x):\n    return 1 // 0\n")
    assert found == {
        "state": "failed",
        "label": "assert candidate(1) == 3",
        "expected": None,
        "actual": "ZeroDivisionError: integer division or modulo by zero",
        "source": "test:2",
    }


def test_an_assertion_of_the_code_itself_is_not_taken_for_one_of_the_tests() -> None:
    found = solve("def f(x):\n    assert x == 7, 'mine'\n")
    assert (found["expected"], found["actual"]) == (None, "AssertionError: mine")


def test_an_exception_while_the_code_is_defined_is_told_with_its_own_line() -> None:
    assert solve("x = 1\ndef f(x): pass\nraise KeyError('k')\n")["source"] == "candidate:3"


def test_code_that_does_not_compile_is_told_with_its_line() -> None:
    found = solve(fenced("def f(x):\n    return x +\n"))
    assert (found["label"], found["source"]) == ("the code compiles", "candidate:2")
    assert found["actual"].startswith("SyntaxError")


@pytest.mark.parametrize(
    "code", ["class R:\n    def __repr__(self): raise SystemExit\n", "R = lambda: '\ud800' * 9999\n"]
)
def test_a_value_that_cannot_be_shown_does_no_harm(code: str) -> None:
    found = solve(fenced(f"{code}def f(x):\n    return R()\n"))
    assert found["state"] == "failed"
    assert len(found["actual"] or "") <= _assertions.TEXT_LENGTH


@pytest.mark.parametrize(
    ("tests", "why"),
    [
        ("def check(candidate:\n", "do not compile"),
        ("def test(candidate): pass\n", "no function `check"),
        ("x = '\0'\n", "do not compile"),
    ],
)
def test_tests_that_cannot_run_are_the_benchmarks_fault(tests: str, why: str) -> None:
    with pytest.raises(runner.Broken, match=why):
        runner.load_tests(tests, PROMPT, "f")


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (MemoryError(), "memory"),
        (OSError(12, "Cannot allocate memory"), "memory"),
        (SystemExit(0), "incomplete"),
        (KeyboardInterrupt(), "incomplete"),
        (EOFError("EOF when reading a line"), "incomplete"),
        (BlockingIOError(11, "Resource temporarily unavailable"), "incomplete"),
        (RuntimeError("can't start new thread"), "incomplete"),
        (OSError(27, "File too large"), "incomplete"),
        (EOFError("of a file of its own"), None),
        (RuntimeError("other"), None),
        (RecursionError("deep"), None),
        (OSError(2, "No such file"), None),
    ],
)
def test_broken_limits_are_told_apart_from_wrong_answers(error: BaseException, state: str | None) -> None:
    found = runner.why_incomplete(error)
    assert (found or {}).get("state") == state
