"""Pages that repeat facts of the code say what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from proctor.model.codes import CODES


@pytest.fixture(scope="module")
def generator(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", root / "docs/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_up_to_date(root: Path, generator: ModuleType) -> None:
    """Mend with `.venv/bin/python docs/generate.py`."""
    stale = [
        name
        for name, page in generator.PAGES.items()
        if not (root / "docs" / name).exists() or (root / "docs" / name).read_text(encoding="utf-8") != page()
    ]
    assert stale == []


def test_every_issue_code_is_described(root: Path) -> None:
    page = (root / "docs/codes.md").read_text(encoding="utf-8").splitlines()
    assert [line.removeprefix("## ") for line in page if line.startswith("## ")] == list(CODES)


def test_links_between_pages_lead_somewhere(root: Path, texts: dict[str, str]) -> None:
    found = [
        f"{name}: {target}"
        for name, text in texts.items()
        if name.endswith(".md")
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
        if "://" not in target and not (root / name).parent.joinpath(target).exists()
    ]
    assert not found, "\n".join(found)
