"""What docs/plugins shows works as it stands there, and so does the package that examples/plugin begins one with."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from proctor.errors import Fault, UsageError
from proctor.model.spec import ModelSpec
from proctor.plugins.api import ChatMessage, Tool
from proctor.plugins.registry import Kind
from proctor.testing import __all__ as exported
from proctor.testing._grader_answers import ODD
from support.forked import Forks, Ran, forks

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs/plugins"
TEMPLATE = ROOT / "examples/plugin"
FILE = re.compile(r"`(\w+\.py)`[^`]*\n\n```python\n(.*?)```", re.DOTALL)
SHOWN: dict[str, list[str]] = {
    "harness": ["2 passed · 0 failed · 0 errored", "2 passed · 0 failed · 0 errored"],
    "benchmark": ["sums:Sums is gradeable", "2 passed · 0 failed", "0 passed · 2 failed · 0 errored"],
    "grader": ["similar:Mottoes is gradeable", "1 passed · 1 failed · 0 errored", "similar"],
    "provider": ["2 passed · 0 failed · 0 errored", "2 passed · 0 failed · 0 errored"],
    "model": ["2 passed · 0 failed · 0 errored · 0 skipped"],
}
"""What the commands of each page print."""
A_PART = {"provider": "exit_codes or signal or words or fresh or listed"}
"""Of the tests of a page, where all of them take long; they are the same for every provider."""


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def environ(path: Path | None = None) -> dict[str, str]:
    """Return the variables of a program; `path` is where more packages are."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    kept |= {"NO_COLOR": "1", "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1"}
    return kept if path is None else kept | {"PYTHONPATH": str(path)}


@pytest.fixture(scope="module")
def programs() -> Iterator[Forks]:
    with forks() as made:
        yield made


@pytest.fixture
def run(programs: Forks) -> Callable[..., Ran]:
    """Run `proctor` or `pytest` of the environment of the tests; `path` is where more packages are."""

    def call(*words: str | Path, folder: Path, path: Path | None = None) -> Ran:
        return programs.run(*words, folder=folder, env=environ(path))

    return call


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory with the files of a page, installed as far as entry points go."""
    text = page(request.param)
    for name, code in FILE.findall(text):
        (tmp_path / name).write_text(code, encoding="utf-8")
    [(kinds, entry)] = re.findall(r'```toml\n\[project\.entry-points\."(.*?)"\]\n(.*?)```', text, re.DOTALL)
    installed = tmp_path / "mine-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[{kinds}]\n{entry.replace(chr(34), '')}")
    return tmp_path


@pytest.fixture
def port(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """Where the endpoint of the page listens, if it has one."""
    endpoint = folder / "endpoint.py"
    if not endpoint.exists():
        yield "8123"
        return
    with subprocess.Popen(
        [sys.executable, endpoint, "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()


@pytest.mark.parametrize("folder", SHOWN, indirect=True, ids=str)
def test_11_the_commands_of_a_page_work(
    request: pytest.FixtureRequest, folder: Path, port: str, run: Callable[..., Ran]
) -> None:
    name = request.node.callspec.params["folder"]
    commands = [(found.start(), found[1]) for found in re.finditer(r"^\$ (proctor .*)$", page(name), re.MULTILINE)]
    assert len(commands) == len(SHOWN[name])
    installed_at = page(name).index("```toml")
    for (place, command), shown in zip(commands, SHOWN[name], strict=True):
        words = shlex.split(command.replace(":8123", f":{port}"))
        # Until it is registered, a plugin is found in the current directory, with no help from the environment.
        ended = run(*words, folder=folder, path=folder if place > installed_at else None)
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"
        assert shown in ended.stdout + ended.stderr, f"{command}\n{ended.stdout}{ended.stderr}"


@pytest.mark.parametrize("folder", [name for name in SHOWN if name != "model"], indirect=True, ids=str)
def test_11_the_plugin_of_a_page_conforms(
    request: pytest.FixtureRequest, folder: Path, run: Callable[..., Ran]
) -> None:
    part = A_PART.get(request.node.callspec.params["folder"], "")
    [tests] = folder.glob("test_*.py")
    ended = run("pytest", "-q", "-p", "no:cacheprovider", "-k", part, tests.name, folder=folder, path=folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert int(re.findall(r"(\d+) passed", ended.stdout)[-1]) >= 5


class Refusing(BaseHTTPRequestHandler):
    """Answers with the status that the path says, and no JSON."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(int(self.path.strip("/")))
        self.send_header("Retry-After", "7")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"no")

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


@pytest.mark.parametrize("folder", ["model"], indirect=True)
def test_11_the_model_of_the_page_says_what_failed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    make = importlib.import_module("plain_model").PlainModel
    asked = [ChatMessage("user", "Hello")]

    def failure(address: str | None, tools: Any = ()) -> Fault:
        with pytest.raises(Fault) as caught:
            asyncio.run(make(ModelSpec("plain/m", address)).complete(asked, tools))
        return caught.value

    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        at = f"http://127.0.0.1:{server.server_port}"
        found = {status: failure(f"{at}/{status}") for status in (200, 400, 401, 404, 429, 500, 503)}
        server.shutdown()
    assert {status: fault.code.removeprefix("model.") for status, fault in found.items()} == {
        200: "server", 400: "invalid_request", 401: "refused_auth", 404: "not_found", 429: "rate_limited",
        500: "server", 503: "overloaded",
    }  # fmt: skip
    assert {status for status, fault in found.items() if fault.refused} == {429, 503}
    assert found[429].retry_after == "7"
    assert failure(at).code == "model.connection"
    assert not failure(at, [Tool("bash", "", {})]).refused
    with pytest.raises(UsageError):
        make(ModelSpec("plain/m"))


def test_11_the_pages_have_every_kind_and_suite() -> None:
    index = page("index")
    for kind in Kind:
        assert f"| {kind.value} |" in index
        assert f"`{kind.group}`" in index
    for suite in [name for name in exported if name.startswith("check_")]:
        assert f"| `{suite}` |" in index
    assert {path.stem for path in PAGES.iterdir()} == {"index", *SHOWN}
    assert "nineteen kinds of odd answers" in index
    assert len(ODD) == 19


def test_11_what_pages_and_package_both_have_is_the_same() -> None:
    ours = {path.name: path.read_text(encoding="utf-8") for path in (TEMPLATE / "src/my_plugins").glob("*.py")}
    shown = {name: code for kind in ("harness", "benchmark", "grader") for name, code in FILE.findall(page(kind))}
    assert {name: code for name, code in shown.items() if not name.startswith("test_")} == {
        name: code for name, code in ours.items() if name != "__init__.py"
    }


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="pip is not installed in this environment")
def test_11_the_package_installs_and_its_plugins_are_found(tmp_path: Path, run: Callable[..., Ran]) -> None:
    source, site = tmp_path / "plugin", tmp_path / "site"
    shutil.copytree(TEMPLATE, source, ignore=shutil.ignore_patterns("__pycache__", ".*", "results"))
    install = ("-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index", "--target")
    made = subprocess.run(
        [sys.executable, *install, site, source],
        check=False, cwd=tmp_path, env=environ(), capture_output=True, text=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout + made.stderr
    for kind, name in (
        ("harnesses", "voting"),
        ("benchmarks", "sums"),
        ("benchmarks", "mottoes"),
        ("graders", "similar"),
    ):
        listed = run("proctor", "list", kind, folder=tmp_path, path=site).stdout
        assert re.search(rf"^{name}\b.*my-proctor-plugins 0\.1\.0", listed, re.MULTILINE), listed
    [block] = re.findall(r"```sh\n(.*?)```", (TEMPLATE / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block.splitlines()[:2] == ["pip install -e .", "pytest"]
    for command, shown in zip(block.splitlines()[2:], ("sums is gradeable", "2 failed · 0 errored"), strict=True):
        ended = run(*shlex.split(command), folder=tmp_path, path=site)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert shown in ended.stdout + ended.stderr
    ended = run("pytest", "-q", "-p", "no:cacheprovider", folder=source)
    assert ended.returncode == 0, ended.stdout + ended.stderr
