"""Huge, binary and hostile output: bounded, kept as evidence, never active on a terminal (cases 121 to 129)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile import ANSWERS, CONTROLS
from program import Ended

from proctor.store.plain import escape_surrogates

Proctor = Callable[..., Ended]

ACTIVE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What makes a terminal do something; line ends and tabs do no harm."""

MEBI = 1024 * 1024
KEPT = 10 * MEBI
GROWTH = 64 * MEBI
"""How much more memory the runner may take for a command that prints without end, than for one that prints `KEPT`."""


def quiet(ended: Ended) -> Ended:
    """Check that nothing that was printed does anything to a terminal."""
    for text in (ended.out, ended.err):
        found = ACTIVE.search(text)
        assert found is None, repr(text[max(0, found.start() - 80) : found.end() + 20])
    return ended


def files_of(run_dir: Path) -> list[Path]:
    return [path for path in run_dir.rglob("*") if path.is_file()]


@pytest.mark.long
@pytest.mark.parametrize("how", ["controls", "raise"])
def test_127_no_display_hands_on_what_a_terminal_would_obey(proctor: Proctor, how: str) -> None:
    ended = quiet(proctor("run", "hostile:Shouting", "hostile:Hostile", "--set", f"harness.params.how={how}"))
    assert ended.code == (0 if how == "controls" else 3)
    assert "[red]" in ended.err, "mark-up is text"
    run_dir = ended.run_dir
    attempt = re.search('"attempt":"([a-z2-7]{12})"', (run_dir / "journal.jsonl").read_text())
    assert attempt is not None
    for arguments in (
        ["show", run_dir], ["show", run_dir, "--json"],
        ["show", f"@{attempt[1]}"], ["show", f"@{attempt[1]}", "--json"],
        ["plan", "hostile:Shouting", "hostile:Hostile"], ["plan", "hostile:Shouting", "hostile:Hostile", "--json"],
        ["run", "hostile:Shouting", "hostile:Hostile", "--json", "--run-id", "second"],
        ["check", "hostile:Shouting", "--run-id", "third"],
    ):  # fmt: skip
        quiet(proctor(*arguments))
    assert ACTIVE.search((run_dir / "summary.md").read_text()) is None


def test_127_evidence_keeps_what_was_said_as_it_was(proctor: Proctor) -> None:
    ended = proctor("run", "hostile:Shouting", "hostile:Hostile", "--limit", "1")
    [folder] = (ended.run_dir / "attempts").glob("*/0/tries/1")
    raw = CONTROLS.encode()
    assert (folder / "checkpoint/answer.txt").read_bytes() == raw
    assert raw in (folder / "try.log").read_bytes()
    assert json.loads((folder / "trajectory.json").read_text())["steps"][0]["message"] == CONTROLS
    result = json.loads(next(folder.parent.parent.glob("result.json")).read_text())
    assert CONTROLS in result["tries"][0]["issues"][0]["message"]


@pytest.mark.long
def test_127_json_on_standard_output_has_the_same_values(proctor: Proctor) -> None:
    ended = quiet(proctor("run", "hostile:Shouting", "hostile:Hostile", "--json", "--limit", "1"))
    said = [event["issue"]["message"] for event in ended.events if event["type"] == "IssueRaised"]
    assert CONTROLS in said
    assert len(ended.out.split("\n")) == len(ended.events) + 1, "one line per event, whatever is in it"


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", CONTROLS, "nop"],
        ["run", "trivial", CONTROLS],
        ["run", "trivial", "nop", "--tasks", CONTROLS],
        ["run", "trivial", "nop", "--set", f"{CONTROLS}=1"],
        ["run", "trivial", "nop", "--set", f"benchmark.params.tasks={CONTROLS}"],
        ["run", "trivial", "nop", "--retry-pattern", f"({CONTROLS}"],
        ["run", "trivial", "nop", "--run-id", CONTROLS.replace("\0", "")],
        ["run", "trivial", "nop", f"--{CONTROLS}"],
        ["run", "trivial", "chat", CONTROLS],
        ["show", CONTROLS.replace("\0", "")],
        ["show", f"@{CONTROLS}"],
        [CONTROLS],
    ],
    ids=lambda arguments: " ".join(arguments).replace(CONTROLS, "CONTROLS").replace(CONTROLS.replace("\0", ""), "C"),
)
def test_127_an_error_line_quotes_what_was_typed_and_nothing_of_it_acts(proctor: Proctor, arguments: list[str]) -> None:
    ended = quiet(proctor(*arguments))
    assert ended.code in (2, 4)
    assert ended.err.startswith("error: ")


@pytest.mark.parametrize("control", sorted(set(ACTIVE.findall(CONTROLS))), ids=lambda control: f"{ord(control):x}")
def test_127_an_id_with_controls_is_refused_or_shown_without_them(proctor: Proctor, control: str) -> None:
    ids = f"benchmark.params.ids=a{control}b"
    ended = quiet(proctor("run", "hostile:Shouting", "nop", "--set", ids, "--limit", "1"))
    assert ended.code in (0, 2)
    if ended.code == 0:
        quiet(proctor("show", ended.run_dir))


def test_126_every_answer_is_read_back_as_it_was(proctor: Proctor) -> None:
    ended = quiet(
        proctor("run", "hostile:Answers", "chat", "mock/script", "--set", "model.params.script=hostile:answer")
    )
    assert ended.code == 0, ended.err
    assert f"{len(ANSWERS)}/{len(ANSWERS)} passed" in ended.err
    rows = {row["task"]: row for row in json.loads(proctor("show", ended.run_dir, "--json").out)["attempts"]}
    assert {name: row["verdict"] for name, row in rows.items()} == dict.fromkeys(ANSWERS, "passed")
    found: dict[str, tuple[str, str]] = {}
    for result in (ended.run_dir / "attempts").rglob("result.json"):
        folder = result.parent / "tries/1"
        kept = (folder / "checkpoint/answer.txt").read_bytes().decode("utf-8", "surrogatepass")
        steps = json.loads((folder / "trajectory.json").read_bytes())["steps"]
        found[json.loads(result.read_bytes())["task"]] = kept, steps[-1]["message"]
    assert found == {name: (text, escape_surrogates(text)) for name, text in ANSWERS.items()}
    for path in files_of(ended.run_dir):
        if path.name != "answer.txt":
            path.read_bytes().decode("utf-8")


BINARY = {
    "random": "head -c 65536 /dev/urandom",
    "zeros": "head -c 65536 /dev/zero",
    "lone": r"printf '\200\277\377\376 a \303'",
    "utf-16": r"printf '\377\376h\000i\000'",
    "latin-1": r"printf 'caf\351'",
}


@pytest.mark.parametrize("kind", BINARY)
def test_123_binary_output_ends_nothing_and_results_are_text(proctor: Proctor, kind: str) -> None:
    ended = quiet(
        proctor("run", "trivial", "hostile:Hostile", "--set", f"harness.params.command={BINARY[kind]}", "--limit", "2")
    )
    assert ended.code == 0, ended.err
    assert "2 failed" in ended.err
    assert "no score" not in ended.err
    for path in files_of(ended.run_dir):
        path.read_bytes().decode("utf-8")
    quiet(proctor("show", ended.run_dir))


@pytest.mark.long
def test_129_what_is_too_much_is_kept_in_part_and_the_result_stands(proctor: Proctor) -> None:
    ended = quiet(
        proctor("run", "hostile:Shouting", "hostile:Hostile", "--set", "harness.params.how=too much", "--limit", "1")
    )
    assert ended.code == 0, ended.err
    assert "1/1 passed" in ended.err
    [folder] = (ended.run_dir / "attempts").glob("*/0/tries/1")
    result = json.loads(next(folder.parent.parent.glob("result.json")).read_text())
    issues = result["tries"][0]["issues"]
    cut = [issue["message"] for issue in issues if issue["code"] == "output.truncated"]
    assert all(issue["severity"] == "WARNING" for issue in issues if issue["code"] == "output.truncated")
    for part in ("the answer has 20,000,008 characters", "kept in part: 1 values nested too deep", "try.log: ",
                 "1,000 of 50,000 checks", "1,000 of 5,000 sub-scores", "more issues are left out: "):  # fmt: skip
        assert any(part in message for message in cut), part
    assert [check["label"].split()[-1] for check in result["checks"] if not check["ok"]] == ["25000"]
    answer = (folder / "checkpoint/answer.txt").read_text()
    assert answer.startswith("beginaaa")
    assert answer.endswith("aaaend")
    sizes = {path.name: path.stat().st_size for path in files_of(ended.run_dir)}
    assert sizes["try.log"] <= 4 * MEBI + 200
    assert sizes["answer.txt"] <= 16 * MEBI
    assert sizes["journal.jsonl"] <= 6 * MEBI
    assert quiet(proctor("show", ended.run_dir)).code == 0
    attempt = json.loads(proctor("show", ended.run_dir, "--json").out)["attempts"][0]["attempt"]
    assert quiet(proctor("show", f"@{attempt}")).code == 0


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize("printed", [200_000_000, 2_000_000_000])
def test_121_memory_stays_flat_while_an_agent_prints(program: Proctor, printed: int) -> None:
    peaks: list[int] = []
    for size in (KEPT, printed):
        ended = program(
            "run", "trivial", "hostile:Hostile", "--limit", "1", "--run-id", f"run{size}",
            "--set", f"harness.params.command=head -c {size} /dev/zero",
        )  # fmt: skip
        assert ended.code == 0, ended.err
        [run_dir] = [path for path in ended.run_dirs if path.name == f"run{size}"]
        said = re.search(r"(\d+) bytes dropped; peak (\d+) kB", (run_dir / "journal.jsonl").read_text())
        assert said is not None
        assert int(said[1]) == size - KEPT
        peaks.append(int(said[2]) * 1024)
    assert peaks[1] - peaks[0] < GROWTH
