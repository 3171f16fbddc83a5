"""`proctor sandbox`: what was kept or left behind is found, entered and removed; what is in use is not (spec 06 V1)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from program import HANG_SECONDS, SUPPORT, Ended
from test_interrupts import wait_until

from proctor.cli import orphans, sandbox_list, sandbox_providers
from proctor.cli.commands import sandbox as sandbox_command
from proctor.cli.sandbox_labels import project_label
from proctor.providers._folders import Folders, mark_kept
from proctor.providers.local import LocalProvider
from proctor.store.owner import Owner, owner_of, this_owner

Proctor = Callable[..., Ended]

pytestmark = pytest.mark.usefixtures("own_temporary_files")


@pytest.fixture
def own_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sandboxes of this test alone, here and in what it starts."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture(scope="module")
def dead() -> Owner:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        return owner_of(child.pid)


@pytest.fixture
def alive() -> Owner:
    return this_owner()


@pytest.fixture
def elsewhere() -> Owner:
    return replace(this_owner(), host="elsewhere.example.org")


def opened(owner: Owner | None, *, kept: bool = False, **labels: str) -> str:
    """Make a sandbox as a run of `owner` leaves it, and return its id."""
    told: dict[str, str] = {"experiment": "naps", "attempt": "abcdefghijkl", "try": "1", "purpose": "agent", **labels}
    if owner is not None:
        told |= {
            "owner_host": owner.host,
            "owner_boot": owner.boot_id,
            "owner_pid_namespace": owner.pid_namespace,
            "owner_pid": str(owner.pid),
            "owner_start": str(owner.process_start_ticks),
        }
    folder = Folders("local").make(told)
    Path(folder, "work").mkdir()
    if kept:
        mark_kept(folder)
    return Path(folder).name


def there() -> set[str]:
    return {path.name for path in Path(Folders("local").base).glob("local-*")}


def states(ended: Ended) -> dict[str, str]:
    return {one["id"]: one["state"] for one in json.loads(ended.out)["sandboxes"]}


@pytest.fixture
def local(proctor: Proctor) -> Callable[..., Ended]:
    """`proctor sandbox COMMAND` for sandboxes of provider local: others may be there on the machine of a developer."""

    def call(command: str, *arguments: str) -> Ended:
        return proctor("sandbox", command, "--env", "local", *arguments)

    return call


# ------------------------------------------------------------------------------------------------------------- list


def test_V1_list_tells_what_was_kept_what_runs_and_what_is_orphaned(
    local: Proctor, alive: Owner, dead: Owner, elsewhere: Owner
) -> None:
    expected = {
        opened(alive): "running",
        opened(dead): "orphaned",
        opened(elsewhere): "unverified",
        opened(None): "unverified",
        opened(dead, kept=True): "kept",
        opened(alive, kept=True): "kept",
        opened(elsewhere, kept=True): "kept",
    }
    assert states(local("list", "--json")) == expected
    assert set(states(local("list", "--json", "--orphans")).values()) == {"orphaned"}
    kept = states(local("list", "--json", "--kept"))
    assert kept == {name: state for name, state in expected.items() if state == "kept"}
    both = states(local("list", "--json", "--kept", "--orphans"))
    assert sorted(both.values()) == ["kept"] * 3 + ["orphaned"]


def test_V1_the_table_says_what_is_known_and_a_dash_for_the_rest(
    local: Proctor, dead: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = opened(dead, opened="2026-12-01T08:00:00Z")
    nameless = Path(Folders("local").make({})).name
    monkeypatch.setattr(sandbox_command.SystemClock, "wall", lambda self: 1_796_121_300.0)
    ended = local("list")
    heads, first, second = ended.out.splitlines()
    assert heads.split() == ["ID", "PROVIDER", "STATE", "EXPERIMENT", "ATTEMPT", "TRY", "PURPOSE", "AGE", "OWNER"]
    age = "2 h 35 min"
    assert first.split("  ")[0] == name
    assert [cell.strip() for cell in first.split("  ") if cell] == [
        name, "local", "orphaned", "naps", "@abcdefghijkl", "1", "agent", age, f"{dead.host}:{dead.pid}",
    ]  # fmt: skip
    assert second.split() == [nameless, "local", "unverified", *"------"]
    assert "`proctor sandbox prune` removes" in ended.err
    assert ended.code == 0


def test_list_says_that_nothing_is_there(local: Proctor) -> None:
    ended = local("list")
    assert (ended.code, ended.out) == (0, "")
    assert "no sandbox is there" in ended.err
    assert json.loads(local("list", "--json").out) == {"sandboxes": [], "providers": {"local": None}}


def test_list_prints_nothing_that_a_terminal_would_obey(local: Proctor, dead: Owner) -> None:
    opened(dead, experiment="\x1b[2Jnaps\nforged")
    ended = local("list")
    assert "\x1b" not in ended.out
    assert len(ended.out.splitlines()) == 2


def test_json_has_null_for_what_is_not_known(local: Proctor) -> None:
    opened(None, attempt="abcdefghijkl")
    [one] = json.loads(local("list", "--json").out)["sandboxes"]
    assert (one["age_seconds"], one["run"], one["owner"]["pid"]) == (None, None, None)
    assert (one["try"], one["purpose"]) == (1, "agent")
    assert one["owner"]["living"] == "unknown"


# --------------------------------------------------------------------------------- providers that do not take part


def test_a_provider_that_does_not_work_is_passed_over_unless_it_was_named(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch, dead: Owner
) -> None:
    name = opened(dead)
    monkeypatch.setattr(sandbox_providers, "names", lambda kind: ["local", "sandbox_plugins:Absent"])
    ended = proctor("sandbox", "list")
    assert ended.code == 0
    assert name in ended.out
    assert "absent" not in ended.err.lower()
    assert json.loads(proctor("sandbox", "list", "--json").out)["providers"] == {
        "local": None, "sandbox_plugins:Absent": "its daemon does not answer",
    }  # fmt: skip
    named = proctor("sandbox", "list", "--env", "sandbox_plugins:Absent")
    assert named.code == 3
    assert "warning: provider sandbox_plugins:Absent: its daemon does not answer" in named.err


@pytest.mark.parametrize(
    ("plugin", "said"), [("ListFails", "ConnectionResetError: peer went away"), ("Nameless", "1 sandbox of its list")]
)
def test_a_provider_that_fails_is_named_and_the_others_are_listed(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch, dead: Owner, plugin: str, said: str
) -> None:
    name = opened(dead)
    monkeypatch.setattr(sandbox_providers, "names", lambda kind: ["local", f"sandbox_plugins:{plugin}"])
    ended = proctor("sandbox", "list")
    assert ended.code == 3
    assert name in ended.out
    assert said in ended.err


def test_a_provider_that_hangs_holds_nobody(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_providers, "LIST_SECONDS", 0.01)
    monkeypatch.setattr(sandbox_providers, "CLEAN_SECONDS", 0.01)
    ended = proctor("sandbox", "list", "--env", "sandbox_plugins:Hangs")
    assert ended.code == 3
    assert "it did not list its sandboxes within 0.01 s" in ended.err


def test_an_unknown_provider_is_a_usage_error(proctor: Proctor) -> None:
    ended = proctor("sandbox", "list", "--env", "locl")
    assert ended.code == 2
    assert "unknown provider `locl`; did you mean `local`?" in ended.err


# ------------------------------------------------------------------------------------------------------------- stop


def test_V2_stop_removes_what_it_names_and_nothing_else(local: Proctor, dead: Owner, alive: Owner) -> None:
    kept, orphaned, other = opened(alive, kept=True), opened(dead), opened(dead)
    ended = local("stop", kept, orphaned, kept)
    assert ended.code == 0
    assert sorted(ended.out.splitlines()) == sorted([f"removed {kept}", f"removed {orphaned}"])
    assert there() == {other}


def test_stop_takes_the_beginning_of_an_id_where_it_is_unique(local: Proctor, alive: Owner) -> None:
    first, second = opened(alive, kept=True), opened(alive, kept=True)
    length = next(i for i in range(len(first)) if first[i] != second[i])
    ambiguous = local("stop", first[:length])
    assert ambiguous.code == 2
    assert first in ambiguous.err
    assert second in ambiguous.err
    assert there() == {first, second}
    assert local("stop", first[: length + 1]).code == 0
    assert there() == {second}


def test_V2_stop_of_an_attempt_removes_all_that_was_kept_of_it(local: Proctor, alive: Owner) -> None:
    agent, grade = opened(alive, kept=True), opened(alive, kept=True, purpose="grade")
    running, other = opened(alive), opened(alive, kept=True, attempt="abcdefgh2222")
    wide = local("stop", "@abcdefgh")
    assert wide.code == 2
    assert "beginning of 2 attempts: @abcdefgh2222, @abcdefghijkl" in wide.err
    assert there() == {agent, grade, running, other}
    assert local("stop", "@abcdefghijkl").code == 0
    assert there() == {running, other}
    again = local("stop", "@abcdefghijkl")
    assert again.code == 2
    assert "no sandbox was kept of attempt `@abcdefghijkl`" in again.err


def test_V2_stop_all_kept_leaves_what_was_not(local: Proctor, alive: Owner, dead: Owner) -> None:
    opened(alive, kept=True)
    opened(dead, kept=True)
    running, orphaned = opened(alive), opened(dead)
    assert local("stop", "--all-kept").code == 0
    assert there() == {running, orphaned}
    none = local("stop", "--all-kept")
    assert (none.code, none.out) == (0, "")
    assert "no sandbox is kept" in none.err


@pytest.mark.parametrize("owner", ["alive", "elsewhere"])
def test_V1_stop_of_what_may_be_in_use_needs_force(
    local: Proctor, dead: Owner, owner: str, request: pytest.FixtureRequest
) -> None:
    used, orphaned = opened(request.getfixturevalue(owner)), opened(dead)
    refused = local("stop", orphaned, used)
    assert refused.code == 2
    assert f"sandbox `{used}` is {'in use' if owner == 'alive' else 'perhaps in use'}" in refused.err
    assert "--force" in refused.err
    assert there() == {used, orphaned}
    assert local("stop", orphaned, used, "--force").code == 0
    assert there() == set()


@pytest.mark.parametrize("word", ["local-000000000000", "@nowhere", "@", "", "../work"])
def test_stop_removes_nothing_where_one_word_is_wrong(local: Proctor, dead: Owner, word: str) -> None:
    orphaned = opened(dead)
    assert local("stop", orphaned, word).code == 2
    assert there() == {orphaned}


def test_stop_wants_to_know_what(local: Proctor) -> None:
    ended = local("stop")
    assert ended.code == 2
    assert "--all-kept" in ended.err


def test_what_cannot_be_removed_is_named_and_the_rest_is_removed(proctor: Proctor) -> None:
    ended = proctor("sandbox", "stop", "--env", "sandbox_plugins:RemoveFails", "--all-kept")
    assert ended.code == 3
    assert ended.out == "removed good-1\n"
    assert "sandbox `bad-1` could not be removed: OSError: [Errno 16] Device or resource busy" in ended.err


def test_an_interrupt_leaves_the_rest_and_says_so(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    from sandbox_plugins import RemoveFails

    async def interrupted(self: RemoveFails, sandbox: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RemoveFails, "remove", interrupted)
    ended = proctor("sandbox", "stop", "--env", "sandbox_plugins:RemoveFails", "good-1")
    assert ended.code == 130
    assert "may be there; run the same command again" in ended.err


# ------------------------------------------------------------------------------------------------------------ prune


def test_V1_prune_removes_orphans_alone(local: Proctor, dead: Owner, alive: Owner, elsewhere: Owner) -> None:
    orphans = {opened(dead), opened(dead, experiment="other")}
    stay = {opened(alive), opened(elsewhere), opened(None), opened(dead, kept=True), opened(elsewhere, kept=True)}
    ended = local("prune")
    assert ended.code == 0
    assert sorted(ended.out.splitlines()) == sorted(f"removed {name}" for name in orphans)
    assert there() == stay
    assert "2 sandboxes may belong to a run that lives elsewhere" in ended.err


def test_V1_prune_force_removes_the_unverified_and_never_what_was_kept_or_runs(
    local: Proctor, dead: Owner, alive: Owner, elsewhere: Owner
) -> None:
    for owner in (dead, elsewhere, None):
        opened(owner)
    stay = {opened(alive), opened(dead, kept=True), opened(elsewhere, kept=True), opened(None, kept=True)}
    assert local("prune", "--force").code == 0
    assert there() == stay


def test_prune_says_that_there_is_nothing(local: Proctor) -> None:
    ended = local("prune")
    assert (ended.code, ended.out) == (0, "")
    assert "no sandbox is orphaned" in ended.err


def test_V2_prune_spares_what_was_kept_while_it_looked(
    proctor: Proctor, dead: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sandbox_plugins import KeepsLate

    monkeypatch.setattr(KeepsLate, "labels", sandbox_labels(dead))
    monkeypatch.setattr(KeepsLate, "listed", 0)
    KeepsLate.removed.clear()
    assert proctor("sandbox", "prune", "--env", "sandbox_plugins:KeepsLate").code == 0
    assert KeepsLate.removed == ["late-2"]


def sandbox_labels(owner: Owner) -> dict[str, str]:
    folder = Path(Folders("local").base, opened(owner))
    return json.loads((folder / "labels.json").read_text())


def test_V1_prune_ends_what_still_runs_in_an_orphan(local: Proctor, tmp_path: Path) -> None:
    """A run that is killed leaves a process in its sandbox; prune ends it with the sandbox."""
    script = f"""
import asyncio, os, sys
from pathlib import Path
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(SUPPORT)!r}]
from test_sandbox import opened
from proctor.model.environment import DEFAULT_ENVIRONMENT
from proctor.providers.local import LocalProvider
from proctor.store.owner import this_owner
async def main():
    own = this_owner()
    labels = dict(owner_host=own.host, owner_boot=own.boot_id, owner_pid_namespace=own.pid_namespace,
        owner_pid=str(own.pid), owner_start=str(own.process_start_ticks))
    box = await LocalProvider().open(DEFAULT_ENVIRONMENT, labels)
    await box.exec("sleep 1000 & echo $! > pid")
    print((await box.read("pid")).decode(), flush=True)
    os.kill(os.getpid(), 9)
asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, timeout=HANG_SECONDS)
    assert ended.returncode == -9, ended.stderr
    [name] = there()
    assert states(local("list", "--json")) == {name: "orphaned"}
    assert local("prune").code == 0
    assert there() == set()
    command = Path("/proc", ended.stdout.decode().strip(), "cmdline")
    assert not command.exists() or b"sleep" not in command.read_bytes()  # one that ended has none


# ------------------------------------------------------------------------------------------------------------ enter


def entering(folder: Path, *arguments: str, typed: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "proctor", "sandbox", "enter", "--env", "local", *arguments],
        cwd=folder, input=typed, capture_output=True, text=True, check=False, timeout=HANG_SECONDS,
    )  # fmt: skip


@pytest.mark.parametrize("owner", ["alive", "dead"])
def test_V2_enter_gives_a_shell_in_the_sandbox_and_its_exit_code(
    local: Proctor, tmp_path: Path, owner: str, request: pytest.FixtureRequest
) -> None:
    name = opened(request.getfixturevalue(owner), kept=owner == "dead")
    (Path(Folders("local").base) / name / "work/left.txt").write_text("by the agent")
    ended = entering(tmp_path, name, typed="cat left.txt; exit 7\n")
    assert (ended.returncode, ended.stdout) == (7, "by the agent"), ended.stderr
    assert ("may be in use" in ended.stderr) is (owner == "alive")


def test_V2_enter_by_attempt_needs_one_sandbox(local: Proctor, tmp_path: Path, dead: Owner) -> None:
    agent = opened(dead, kept=True)
    assert entering(tmp_path, "@abcdefghijkl", typed="pwd\n").stdout.strip().endswith(f"{agent}/work")
    grade = opened(dead, kept=True, purpose="grade")
    ended = local("enter", "@abcdefghijkl")
    assert ended.code == 2
    assert f"`{agent}` (agent)" in ended.err
    assert f"`{grade}` (grade)" in ended.err


def test_enter_does_not_hand_on_that_a_broken_pipe_is_ignored(tmp_path: Path, dead: Owner) -> None:
    name = opened(dead, kept=True)
    ended = entering(tmp_path, name, typed="grep SigIgn /proc/self/status\n")
    ignored = int(ended.stdout.split()[1], 16)
    assert not ignored & 1 << 12  # SIGPIPE is signal 13


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("good-1", 2, "cannot start `no-such-program-of-a-test`"),
        ("bad-1", 2, "cannot be entered: it has no shell"),
        ("ugly-1", 2, "there is no sandbox `ugly-1`"),
    ],
)
def test_enter_says_what_is_wrong(proctor: Proctor, name: str, code: int, said: str) -> None:
    before = signal.getsignal(signal.SIGPIPE)
    ended = proctor("sandbox", "enter", "--env", "sandbox_plugins:RemoveFails", name)
    assert ended.code == code
    assert said in ended.err
    assert signal.getsignal(signal.SIGPIPE) is before


def test_an_id_that_is_nowhere_says_who_was_not_asked(proctor: Proctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_providers, "names", lambda kind: ["local", "sandbox_plugins:Absent"])
    ended = proctor("sandbox", "enter", "docker-1")
    assert ended.code == 2
    assert "not every provider could be asked (sandbox_plugins:Absent: its daemon does not answer)" in ended.err


def test_V2_an_id_from_before_it_was_kept_still_means_it() -> None:
    labels = {"sandbox": "kept-1", "former": "box-1", "kept": "true"}
    asked = sandbox_providers.Asked(labels={"engine": [labels]})
    found = sandbox_list.found_in(asked, this_owner())
    assert [one.id for one in sandbox_list.choose(found, "box-1")] == ["kept-1"]


# ---------------------------------------------------------------------------------------- orphans at the next start


@pytest.mark.parametrize(
    ("invocations", "said"),
    [
        (["i1"], "note: 1 sandbox of a run that was killed is still there: `proctor sandbox prune` removes it"),
        (["i1", "i1"], "note: 2 sandboxes of a run that was killed are still there"),
        (["i1", "i2", "i2"], "note: 3 sandboxes of 2 runs that were killed are still there"),
    ],
)
def test_V1_a_start_mentions_orphans_of_this_project(
    proctor: Proctor, tmp_path: Path, dead: Owner, alive: Owner, invocations: list[str], said: str
) -> None:
    project = project_label(tmp_path / "results")
    for invocation in invocations:
        opened(dead, invocation=invocation, project=project)
    opened(dead, invocation="other", project="of another")
    opened(dead, invocation="kept", project=project, kept=True)
    opened(alive, invocation="runs", project=project)
    before = there()
    ended = proctor("run", "trivial", "oracle", "--progress", "plain")
    assert ended.code == 0
    lines = [line for line in (ended.out + ended.err).splitlines() if "still there" in line]
    assert len(lines) == 1
    assert lines[0].startswith(said)
    assert there() == before


def test_V1_a_start_without_orphans_says_nothing(proctor: Proctor, alive: Owner, tmp_path: Path) -> None:
    opened(alive, invocation="runs", project=project_label(tmp_path / "results"))
    ended = proctor("run", "trivial", "oracle", "--progress", "plain")
    assert "still there" not in ended.out + ended.err


def test_V1_looking_for_orphans_never_fails_a_start(
    proctor: Proctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def fails(self: LocalProvider, labels: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(LocalProvider, "list", fails)
    assert proctor("run", "trivial", "oracle", "--progress", "none").code == 0


def test_V1_what_does_not_answer_is_left_out_and_the_rest_is_mentioned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead: Owner
) -> None:
    from sandbox_plugins import Hangs, ListFails

    from proctor.runtime.running import run_to_end

    monkeypatch.setattr(orphans, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(orphans, "CHEAP", ())
    opened(dead, invocation="i1", project=project_label(tmp_path / "results"))
    hangs = Hangs()

    async def note() -> str | None:
        try:
            return await orphans.orphan_note([hangs, ListFails(), LocalProvider()], tmp_path / "results")
        finally:
            await hangs.finalize()

    assert (run_to_end(note()) or "").startswith("note: 1 sandbox of a run that was killed is still there")


def test_I2_what_a_killed_run_leaves_is_seen_mentioned_and_pruned(
    local: Proctor, proctor: Proctor, process: Callable[..., subprocess.Popen[str]]
) -> None:
    """From the labels that a run gives to the removal, with a run that is killed in the midst of it."""
    options = ["--env", "local", "--limit", "2", "--progress", "none", "--set", "harness.params.command=sleep 1000"]
    with process("run", "trivial", "plugins:Sleeper", *options) as started:
        try:
            wait_until(lambda: len(Folders("local").list({})) == 2, started)
            found = json.loads(local("list", "--json").out)["sandboxes"]
            assert {one["state"] for one in found} == {"running"}
            assert {one["owner"]["pid"] for one in found} == {started.pid}
            assert {(one["try"], one["purpose"]) for one in found} == {(1, "agent")}
            assert local("prune").out == ""
            assert len(there()) == 2
        finally:
            started.kill()
    assert set(states(local("list", "--json")).values()) == {"orphaned"}
    told = proctor("run", "trivial", "oracle", "--limit", "1", "--progress", "plain")
    assert "2 sandboxes of a run that was killed are still there" in told.out + told.err
    assert local("prune").code == 0
    assert there() == set()


def test_help_and_completion_import_no_provider(tmp_path: Path) -> None:
    probe = (
        "import sys; from proctor.cli.main import run; run(sys.argv[1:]);"
        "print([name for name in sys.modules if name.startswith('proctor.providers.')], file=sys.stderr)"
    )
    for arguments, more in ((["sandbox", "stop", "--help"], {}), (["doctor", "--help"], {}), ([], COMPLETING)):
        ended = subprocess.run(
            [sys.executable, "-c", probe, *arguments], env={**os.environ, **more}, cwd=tmp_path,
            capture_output=True, text=True, check=False, timeout=HANG_SECONDS,
        )  # fmt: skip
        assert ended.stdout
        assert ended.stderr.splitlines()[-1] == "[]"


COMPLETING = {"_PROCTOR_COMPLETE": "bash_complete", "COMP_WORDS": "proctor sandbox ", "COMP_CWORD": "2"}


def test_the_page_shows_commands_and_options_that_exist() -> None:
    page = (Path(__file__).parents[2] / "docs/sandboxes.md").read_text(encoding="utf-8")
    shown = re.findall(r"^    proctor sandbox (\w+)(.*?)(?: {2,}.*)?$", page, re.MULTILINE)
    assert {name for name, _ in shown} == set(sandbox_command.command.commands)
    for name, words in shown:
        known = {option for param in sandbox_command.command.commands[name].params for option in param.opts}
        assert {word for word in words.split() if word.startswith("--")} <= known
