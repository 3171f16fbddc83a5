"""What the viewer answers to whom: reading alone, under its own name, and nothing outside of the results."""

import asyncio
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2] / "support"))
from viewer_client import HOST, Answer, ask
from viewer_runs import START, evidence, good_try, make_run, sealed, started

from proctor.errors import StoreError
from proctor.viewer import app as app_module
from proctor.viewer.app import LANGUAGE_COOKIE, make_app
from proctor.viewer.results import Results
from proctor.viewer.security import HEADERS, App
from proctor.viewer.serve import LOCAL_NAMES

A = "abcdefghijkl"
SECRET = b"nobody may read this"
NAMES = LOCAL_NAMES
TRY = "attempts/task/0/tries/1"

ROUTES = {
    "/": 200, "/?lang=zh&q=x&sort=-cost&page=7": 200, "/run/e/r1": 200, f"/attempt/{A}/e/r1": 200, "/lanes/e/r1": 200,
    "/compare?run=e/r1&run=e/r2": 200, f"/file/e/r1?path={TRY}/try.log": 200, "/file/e/r1?path=journal.jsonl": 200,
    "/static/style.css": 200, "/static/viewer.js": 200, "/static/attempt.css": 200,
    "/run/e/gone": 404, "/run/": 404, "/run": 404, "/attempt/x/e/r1": 404, "/attempt/bbcdefghijkl/e/r1": 404,
    "/lanes/gone": 404, "/compare": 404, "/compare?run=e/r1": 404, "/compare?run=e/r1&run=gone": 404,
    "/file/e/r1": 404, "/file/e/r1?path=gone": 404, "/file/e/r1?path=attempts": 404, "/file/gone?path=x": 404,
    "/static/words.py": 404, "/static/": 404, "/nothing": 404, "//evil.example.org": 404, "/favicon.ico": 404,
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret.txt").write_bytes(SECRET)
    root = tmp_path / "results"
    for run in ("e/r1", "e/r2"):
        events = [started(), *good_try(A, "task", START), sealed(A, "task", START + 10)]
        layout = make_run(root, events, run)
        evidence(layout, "task", "try.log", b"0123456789")
    (root / "beside.txt").write_bytes(SECRET)
    (root / "e" / "r1" / "link.txt").symlink_to(tmp_path / "secret.txt")
    (root / "e" / "r1" / "up").symlink_to(tmp_path)
    (root / "e" / "outside").symlink_to(tmp_path)
    (root / "linked").symlink_to(root / "e")
    outside = make_run(tmp_path / "outside", [started(SECRET.decode())], "r9")
    (root / "e" / "r9").symlink_to(outside.directory)
    return root


@pytest.fixture
def app(root: Path) -> App:
    return make_app(Results(root), NAMES)


def test_every_route_answers_and_has_the_headers_that_keep_a_page_harmless(app: App) -> None:
    for path, status in ROUTES.items():
        for method in ("GET", "HEAD"):
            answer = ask(app, path, method)
            assert answer.status == status, path
            for name, value in HEADERS:
                assert answer.header(name.decode()) == value.decode(), (path, name)
            kind = answer.header("content-type") or ""
            own = ("text/html; charset=utf-8", "application/octet-stream")
            assert kind.startswith(own) or path.startswith("/static/")
            if status == 404 and not path.startswith("/static"):
                assert b'href="/"' in answer.body, "there is a way back"


def test_the_policy_allows_nothing_that_stands_in_a_page() -> None:
    policy = dict(HEADERS)[b"content-security-policy"].decode()
    assert policy.startswith("default-src 'none'")
    assert not any(word in policy for word in ("unsafe", "http", "*", "eval"))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "FOO", ""])
def test_nothing_but_reading_is_possible(app: App, method: str) -> None:
    for path in ROUTES:
        answer = ask(app, path, method)
        assert (answer.status, answer.header("allow")) == (405, "GET, HEAD"), path
        assert answer.header("content-security-policy")


@pytest.mark.parametrize(
    ("hosts", "own"),
    [
        ([b"127.0.0.1:8377"], True), ([b"localhost"], True), ([b"LOCALHOST:1"], True), ([b"[::1]:8377"], True),
        ([], False), ([b""], False), ([b"evil.example.org"], False), ([b"127.0.0.1.evil.example.org"], False),
        ([b"evil.example.org@127.0.0.1"], False), ([b"127.0.0.1@evil.example.org"], False), ([b"0.0.0.0:8377"], False),
        ([b"localhost.evil.example.org:8377"], False), ([b"[::1"], False), ([b"[::1]evil"], False),
        ([b"localhost", b"evil.example.org"], False), ([b"localhost", b"localhost"], False), ([b"\xff"], False),
        ([b"localhost:8377/x"], False), ([b"127.1"], False), ([b"2130706433"], False), ([b":8377"], False),
    ],
)  # fmt: skip
def test_it_answers_under_its_own_names_only(app: App, hosts: list[bytes], own: bool) -> None:
    for path, status in ROUTES.items():
        answer = ask(app, path, headers=[(b"host", host) for host in hosts])
        assert answer.status == (status if own else 421), path
        assert own or b"task" not in answer.body
        assert answer.header("content-security-policy")


def test_other_names_are_answered_where_they_were_allowed(root: Path) -> None:
    app = make_app(Results(root), (*NAMES, "Box.example.org"))
    assert ask(app, "/", headers=[(b"host", b"box.EXAMPLE.org:80")]).status == 200
    assert ask(app, "/", headers=[(b"host", b"other.example.org")]).status == 421


def test_sockets_of_the_web_are_closed(app: App) -> None:
    assert ask(app, "/", kind="websocket").status == 1008


PIECES = st.sampled_from(
    ["..", "%2e%2e", "%2E.", "/", "%2f", "%5c", "\\", "%00", "\x00", "etc/passwd", "/etc/passwd", "proc/self/environ",
     "e", "r1", "r9", "e/r1", "linked", "link.txt", "up", "up/secret.txt", "outside", "secret.txt", "beside.txt",
     "attempts", "task", "journal.jsonl", "file:", "~", "%ff", "%c0%af", "%25%32%65", "a" * 300, "a/" * 3000, "é",
     ".", "//", "%0d%0ax: y", "%", "%zz", "?", "#", "*", "\u202e", "<script>", "{{7*7}}", A]
)  # fmt: skip
ENDS = st.lists(PIECES, max_size=6).map("".join) | st.lists(PIECES, max_size=5).map("/".join)
STARTS = st.sampled_from(
    ["/", "/run/", "/run/e/r1/", "/lanes/", f"/attempt/{A}/", f"/attempt/{A}/e/r1/", "/attempt/", "/static/",
     "/static/../", "/file/", "/file/e/r1?path=", f"/file/e/r1?path={TRY}/", "/file/e/r1/../../?path=", "/compare?run=",
     "/compare?run=e/r1&run=", f"/attempt/{A}/e/r1?try=", "/lanes/e/r1?page=", "/?q=", "/?sort=", "/run/e/r1?state="]
)  # fmt: skip


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(STARTS, ENDS)
def test_no_address_leads_out_of_the_results(app: App, start: str, end: str) -> None:
    for path in (start + end, start + quote(end, safe="")):
        answer = ask(app, path)
        assert answer.status in (200, 404), path[:200]
        assert SECRET not in answer.body
        assert b"root:" not in answer.body
        assert b"Traceback" not in answer.body
        assert b"<script>" not in answer.body
        assert b"49" not in answer.body or b"{{7*7}}" not in path.encode()


@pytest.mark.parametrize(
    "run", ["e/r9", "linked/r1", "e/../e/r1", "e//r1", "/e/r1", "e/r1/", "./e/r1", "e/outside/outside/r9"]
)
def test_a_run_has_one_address_and_none_behind_a_link(app: App, run: str) -> None:
    for path in (f"/run/{run}", f"/lanes/{run}", f"/attempt/{A}/{run}", f"/file/{run}?path=journal.jsonl"):
        assert ask(app, path).status == 404, path


@pytest.mark.parametrize(
    "path", ["link.txt", "up/secret.txt", "../../beside.txt", "/etc/passwd", "attempts", "journal.jsonl/x", ""]
)
def test_a_file_is_one_of_the_run_or_not_found(app: App, path: str) -> None:
    answer = ask(app, f"/file/e/r1?path={quote(path)}")
    assert answer.status == 404
    assert SECRET not in answer.body


def test_only_the_runs_that_were_named_are_shown(root: Path) -> None:
    app = make_app(Results(root, (root / "e" / "r1",)), NAMES)
    assert ask(app, "/run/e/r1").status == 200
    assert ask(app, "/run/e/r2").status == 404
    assert b"r2" not in ask(app, "/").body


def fetched(app: App, *headers: tuple[bytes, bytes], method: str = "GET") -> Answer:
    return ask(app, f"/file/e/r1?path={TRY}/try.log", method, [HOST, *headers])


@pytest.mark.parametrize(
    ("asked", "status", "body", "part"),
    [
        (b"bytes=0-3", 206, b"0123", "bytes 0-3/10"), (b"bytes=4-", 206, b"456789", "bytes 4-9/10"),
        (b"bytes=-3", 206, b"789", "bytes 7-9/10"), (b"bytes=8-99", 206, b"89", "bytes 8-9/10"),
        (b"bytes=-99", 206, b"0123456789", "bytes 0-9/10"), (b"bytes=10-", 416, b"", "bytes */10"),
        (b"bytes=-0", 416, b"", "bytes */10"), (b"bytes=5-2", 200, b"0123456789", None),
        (b"bytes=0-1,3-4", 200, b"0123456789", None), (b"lines=1-2", 200, b"0123456789", None),
        (b"bytes=-", 200, b"0123456789", None), (b"bytes=\xb2-", 200, b"0123456789", None),
        (b"bytes=0-" + b"9" * 400, 200, b"0123456789", None),
    ],
)  # fmt: skip
def test_files_are_downloads_by_ranges(app: App, asked: bytes, status: int, body: bytes, part: str | None) -> None:
    answer = fetched(app, (b"range", asked))
    assert (answer.status, answer.body, answer.header("content-range")) == (status, body, part)
    assert answer.header("content-length") == str(len(body))
    assert (answer.header("content-disposition") or "").startswith("attachment;")
    assert answer.header("content-type") == "application/octet-stream"
    assert fetched(app, (b"range", asked), (b"if-range", b'"x"')).body == b"0123456789"
    assert fetched(app, method="HEAD").body == b""


def test_a_file_that_grows_is_sent_as_it_was_when_it_was_asked_for(root: Path) -> None:
    journal = root / "e" / "r1" / "journal.jsonl"
    before = journal.read_bytes()
    app = make_app(Results(root), NAMES)
    pread = app_module.Download.__call__

    async def growing(self, scope, receive, send):  # type: ignore[no-untyped-def]
        with journal.open("ab") as file:
            file.write(b"more")
        await pread(self, scope, receive, send)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app_module.Download, "__call__", growing)
        answer = ask(app, "/file/e/r1?path=journal.jsonl")
    assert answer.body == before
    assert answer.header("content-length") == str(len(before))


def test_names_of_files_cannot_write_headers(root: Path, app: App) -> None:
    name = 'a\r\nset-cookie: x=y";é\u202e.html'
    (root / "e" / "r1" / name).write_bytes(b"<script>")
    answer = ask(app, f"/file/e/r1?path={quote(name)}")
    assert answer.status == 200
    assert answer.header("set-cookie") is None
    assert "\r" not in (answer.header("content-disposition") or "")
    assert answer.header("content-type") == "application/octet-stream"


def test_the_one_cookie_is_the_language_and_only_where_it_was_asked_for(app: App) -> None:
    for path in ROUTES:
        if "lang=" not in path:
            assert ask(app, path).header("set-cookie") is None
    said = ask(app, "/?lang=zh").header("set-cookie") or ""
    assert said.startswith(f"{LANGUAGE_COOKIE}=zh;")
    assert "samesite=strict" in said.lower()
    assert "domain" not in said.lower()
    odd = ask(app, "/?lang=%0d%0aset-cookie:x").header("set-cookie") or ""
    assert odd.startswith(f"{LANGUAGE_COOKIE}=en;")
    cookie = (b"cookie", f"{LANGUAGE_COOKIE}=zh; other=1".encode())
    assert '<html lang="zh">' in ask(app, "/", headers=[HOST, cookie]).text


def test_a_bug_is_a_page_without_a_trace(
    app: App, root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(Results, "entry", broken)
    answer = ask(app, "/run/e/r1")
    assert answer.status == 500
    assert "secret detail" not in answer.text
    assert "Traceback" not in answer.text
    assert answer.header("content-security-policy")
    assert "secret detail" in caplog.text, "who runs the viewer is told"


def test_what_cannot_be_read_is_a_page_that_says_so(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise StoreError("the disk <b>fails</b>", hint="mend it")

    monkeypatch.setattr(Results, "entry", failing)
    answer = ask(app, "/run/e/r1")
    assert answer.status == 500
    assert "the disk &lt;b&gt;fails" in answer.text


def test_many_readers_at_once_get_the_same_answer(app: App) -> None:
    async def all_of_them() -> list[Answer]:
        paths = ["/run/e/r1", "/lanes/e/r1", "/compare?run=e/r1&run=e/r2"] * 6
        return await asyncio.gather(*(asyncio.to_thread(ask, app, path) for path in paths))

    answers = asyncio.run(all_of_them())
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 3
