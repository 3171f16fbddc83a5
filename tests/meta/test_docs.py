"""Pages that repeat facts of the code say what the code says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from proctor.model.codes import CODES, CodeRow


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


def test_no_page_is_left_of_a_code_that_is_gone(generator: ModuleType) -> None:
    assert generator.left_over() == []


def test_every_issue_code_has_a_page_that_says_all_of_it(root: Path) -> None:
    index = (root / "docs/codes.md").read_text(encoding="utf-8")
    said = ["What to do", "Whose doing", "Severity", "Tried again", "What it stops", "What stays"]
    for code in CODES:
        assert f"(codes/{code}.md)" in index
        page = (root / f"docs/codes/{code}.md").read_text(encoding="utf-8")
        assert page.startswith(f"# {code}\n")
        assert all(f"**{each}**: " in page for each in said)


@pytest.mark.parametrize("row", CODES.values(), ids=lambda row: row.code)
def test_what_to_do_is_something_that_a_person_can_do(row: CodeRow) -> None:
    verbs = {
        "add", "build", "change", "check", "choose", "free", "give", "have", "keep", "leave", "look", "lower", "mend",
        "raise", "read", "remove", "run", "set", "start", "try", "undo",
    }  # fmt: skip
    assert row.action.split()[0] in verbs
    assert not row.action.endswith(".")


def test_links_between_pages_lead_somewhere(root: Path, texts: dict[str, str]) -> None:
    found = [
        f"{name}: {target}"
        for name, text in texts.items()
        if name.endswith(".md")
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
        if "://" not in target and not (root / name).parent.joinpath(target).exists()
    ]
    assert not found, "\n".join(found)
