"""What may stand in no file: paths of one machine, and addresses of package servers."""

from __future__ import annotations

import re

MACHINE_PATH = re.compile(r"(?<![\w.~/$})-])/(?:root|work|home|tmp)/[\w.]+")
"""An absolute path that exists on one machine only. Tests use `tmp_path`."""

PACKAGE_SERVER = re.compile(
    r"\b(?:pypi|pythonhosted|npmjs|npmmirror|rubygems|crates|anaconda|debian|ubuntu|docker|ghcr|quay)\.(?:org|com|io|net)\b"
)
"""Which servers packages come from is a setting of each machine."""

PACKAGE_NAMES = dict.fromkeys((".ci/engines", "tests/meta/test_texts.py"), "docker.io")
"""Packages that are called like a server, by the file that installs them."""


def test_no_path_of_one_machine(texts: dict[str, str]) -> None:
    found = hits(MACHINE_PATH, texts)
    assert not found, "\n".join(found)


def test_no_address_of_a_package_server(texts: dict[str, str]) -> None:
    named = {name: text.replace(PACKAGE_NAMES.get(name, "\0"), "") for name, text in texts.items()}
    found = hits(PACKAGE_SERVER, named)
    assert not found, "\n".join(found)


def hits(pattern: re.Pattern[str], texts: dict[str, str]) -> list[str]:
    return [
        f"{name}:{number}: {found.group()}"
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), 1)
        if (found := pattern.search(line))
    ]
