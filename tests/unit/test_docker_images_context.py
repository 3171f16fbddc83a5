"""What goes into a build, and its digest (spec 06 V4: once per digest)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from proctor.data.build_context import compose_digest, context_digest, context_entries
from proctor.data.ignore_patterns import parse_ignore
from proctor.errors import UsageError


def context(folder: Path, **more: str) -> Path:
    files = {"Dockerfile": "FROM scratch\n", "a.txt": "a", "src/b.txt": "b", "src/deep/c.log": "c", **more}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def names(folder: Path, dockerfile: str = "Dockerfile") -> list[str]:
    return [entry.name for entry in context_entries(folder, dockerfile)]


def test_equal_contexts_have_equal_digests_wherever_they_are(tmp_path: Path) -> None:
    one, other = context(tmp_path / "one"), context(tmp_path / "other")
    os.utime(other / "a.txt", (1, 1))
    (other / "a.txt").chmod(0o600)
    assert context_digest(one) == context_digest(other)


@pytest.mark.parametrize("change", ["content", "name", "mode", "link", "directory"])
def test_what_counts_changes_the_digest(tmp_path: Path, change: str) -> None:
    folder = context(tmp_path / "one")
    (folder / "link").symlink_to("a.txt")
    before = context_digest(folder)
    if change == "content":
        (folder / "src/b.txt").write_text("B")
    elif change == "name":
        (folder / "src/b.txt").rename(folder / "src/d.txt")
    elif change == "mode":
        (folder / "src/b.txt").chmod(0o755)
    elif change == "link":
        (folder / "link").unlink()
        (folder / "link").symlink_to("src")
    else:
        (folder / "empty").mkdir()
    assert context_digest(folder) != before


def test_what_is_ignored_does_not_count(tmp_path: Path) -> None:
    folder = context(tmp_path, **{".dockerignore": "**/*.log\n.git\n"})
    before = context_digest(folder)
    (folder / "src/deep/c.log").write_text("much more")
    (folder / ".git").mkdir()
    (folder / ".git/index").write_text("x")
    assert context_digest(folder) == before
    (folder / "a.txt").write_text("more")
    assert context_digest(folder) != before


def test_the_dockerfile_comes_along_though_it_is_ignored(tmp_path: Path) -> None:
    folder = context(tmp_path, **{".dockerignore": "*\n!a.txt\n", "docker/other": "FROM scratch\n"})
    assert names(folder) == [".dockerignore", "Dockerfile", "a.txt"]
    assert names(folder, "docker/other") == [".dockerignore", "a.txt", "docker/other"]


def test_a_dockerfile_may_have_patterns_of_its_own(tmp_path: Path) -> None:
    folder = context(tmp_path, **{".dockerignore": "a.txt\n", "Dockerfile.dockerignore": "src\n"})
    assert names(folder) == [".dockerignore", "Dockerfile", "Dockerfile.dockerignore", "a.txt"]


def test_links_are_not_followed_and_devices_do_not_come_along(tmp_path: Path) -> None:
    folder = context(tmp_path / "context")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("k")
    (folder / "out").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "pipe")
    found = names(folder)
    assert "out" in found
    assert "out/key" not in found
    assert "pipe" not in found


@pytest.mark.parametrize("dockerfile", ["nope", "../Dockerfile", "/etc/passwd", "src"])
def test_a_dockerfile_that_is_none_is_refused(tmp_path: Path, dockerfile: str) -> None:
    with pytest.raises(UsageError, match="no dockerfile"):
        context_digest(context(tmp_path), dockerfile)


def test_a_context_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        context_digest(tmp_path / "nope")


def test_a_compose_file_counts_with_its_folder(tmp_path: Path) -> None:
    folder = context(tmp_path, **{"compose.yaml": "services: {}\n"})
    before = compose_digest(folder / "compose.yaml")
    (folder / "src/b.txt").write_text("B")
    assert compose_digest(folder / "compose.yaml") != before
    with pytest.raises(UsageError, match="no compose file"):
        compose_digest(folder / "other.yaml")


@pytest.mark.parametrize(
    ("pattern", "path", "left_out"),
    [
        ("*.md", "a.md", True),
        ("*.md", "docs/a.md", False),
        ("**/*.md", "docs/deep/a.md", True),
        ("**/*.md", "a.md", True),
        ("docs", "docs/deep/a.md", True),
        ("docs/", "docs/a.md", True),
        ("/docs", "docs", True),
        ("docs/**", "docs", False),
        ("docs/**", "docs/a/b", True),
        ("./docs/../docs/a?", "docs/ab", True),
        ("a[0-9]", "a7", True),
        ("a[^0-9]", "a7", False),
        ("\\*", "*", True),
        ("\\*", "a", False),
        ("# a", "a", False),
        ("docs\n!docs/a", "docs/a", False),
        ("docs\n!docs/a", "docs/b", True),
        ("docs\n!docs\ndocs/b", "docs/b", True),
        ("a.b", "aXb", False),
        ("..", "a", False),
    ],
)
def test_patterns(pattern: str, path: str, left_out: bool) -> None:
    assert parse_ignore(pattern).leaves_out(path) is left_out


def test_a_pattern_that_is_none_is_named(tmp_path: Path) -> None:
    folder = context(tmp_path, **{".dockerignore": "a[z-a]\n"})
    with pytest.raises(UsageError, match=r"a\[z-a\]"):
        context_digest(folder)
