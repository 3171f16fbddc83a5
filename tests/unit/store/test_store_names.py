"""Names are pure functions of ids, valid everywhere, and apart from each other (spec 08 D6)."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from hashlib import sha256

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from proctor.model.events import TryStarted
from proctor.store.codec import decode, encode
from proctor.store.names import (
    NAME_BYTES_MAX,
    component_name,
    experiment_dir_name,
    file_name,
    is_plain_file_name,
    run_name_levels,
)
from proctor.store.plain import escape_surrogates

DEVICES = {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in "123456789¹²³"}
FORBIDDEN = set('/\\:*?"<>|_ ') | {chr(code) for code in [*range(32), 127]}

_TRICKY = st.sampled_from(
    [
        *'aAzZ09éß\u017f\u0131İ_-. /\\:*?"<>|\0\n\x7f', "e\u0301", "\u00c5", "\u212b", "ﬁ", "語", "한", "\u200d",
        "\u202e", "🎉", "\ud800", "con", "CON", "aux.", "com1", "²", "नि", "µ", "ς",
    ]
)  # fmt: skip
ids = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=60),
    st.lists(_TRICKY, max_size=12).map("".join),
    st.lists(_TRICKY, min_size=40, max_size=80).map("".join),
)


def _variants(text: str) -> list[str]:
    """What file systems and careless hands make of an id."""
    variants = [text.upper(), text.lower(), text.casefold(), text.swapcase(), text + ".", text + " ", "." + text]
    variants += [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    return [*variants, component_name(text), text.replace("/", "-"), text.replace("_", "-")]


def _differ(first: str | None, second: str | None) -> bool:
    if first is None or second is None:
        return first is not second
    return escape_surrogates(first) != escape_surrogates(second)


def _folded(name: str) -> set[str]:
    """The forms under which a file system may find a name."""
    forms = {unicodedata.normalize(form, name) for form in ("NFC", "NFD", "NFKC", "NFKD")}
    folded = {fold(form) for form in forms for fold in (str.casefold, str.lower, str.upper)}
    return forms | {unicodedata.normalize("NFC", form) for form in folded}


@settings(max_examples=500)
@given(text=ids)
@example("")
@example(".")
@example("..")
@example("...")
@example("con.")
@example("NUL .txt")
@example("x" * 80)
@example("x" * 81)
@example("語" * 300)
def test_D6_every_name_is_valid_on_every_platform(text: str) -> None:
    name = component_name(text)
    assert 0 < len(name.encode("utf-8")) <= NAME_BYTES_MAX
    assert not set(name) & FORBIDDEN
    assert name == unicodedata.normalize("NFC", name)
    assert not name.startswith(".")
    assert not name.endswith((".", " "))
    stem = name.partition(".")[0].strip()
    assert stem.casefold() not in DEVICES
    assert unicodedata.normalize("NFKC", stem).casefold() not in DEVICES
    assert all(unicodedata.category(character)[0] not in "ZC" for character in name)
    component_name.cache_clear()
    assert component_name(text) == name


@pytest.mark.long
@settings(max_examples=500)
@given(first=ids, second=ids)
@example("a-12345678", "a")
@example("com1", "com¹")
@example("\u0131", "i")
@example("kelvin \u212a", "kelvin K")
def test_D6_different_ids_have_different_names_on_file_systems_that_fold(first: str, second: str) -> None:
    for other in [second, *_variants(first)]:
        if _differ(first, other):
            assert not _folded(component_name(first)) & _folded(component_name(other))


# ----------------------------------------------------------------------------------------------------------- files

endings = st.sampled_from(["", ".json", ".JSON", ".tar.gz", ".a b", ".", "." + "x" * 20])
paths = st.tuples(ids, endings).map("".join)


@settings(max_examples=300)
@given(text=paths)
@example("../../etc/passwd")
@example("x" * 300 + ".json")
@example(".json")
@example("CON.txt")
@example("/CON.tar.gz")
@example("")
def test_06_V6_a_file_from_elsewhere_gets_one_valid_name(text: str) -> None:
    name = file_name(text)
    assert 0 < len(name.encode("utf-8")) <= NAME_BYTES_MAX
    assert not set(name) & (FORBIDDEN - {"_"})
    assert name == unicodedata.normalize("NFC", name)
    assert not name.startswith(".")
    assert not name.endswith((".", " "))
    assert unicodedata.normalize("NFKC", name.partition(".")[0].strip()).casefold() not in DEVICES
    assert is_plain_file_name(name)
    assert file_name(text) == name


@settings(max_examples=300)
@given(first=paths, second=paths)
@example("README-b3356305.md", "README.md")
@example("readme-b3356305.md", "README.md")
@example("a/b.txt", "a-b.txt")
@example("a.TXT", "a.txt")
def test_06_V6_different_files_have_different_names_on_file_systems_that_fold(first: str, second: str) -> None:
    for other in [second, *_variants(first), file_name(first)]:
        if _differ(first, other):
            assert not _folded(file_name(first)) & _folded(file_name(other))


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("report.json", "report.json", ""),
        ("a_b.txt", "a_b.txt", ""),
        ("out/report.json", "out-report-", ".json"),
        ("README.md", "README-", ".md"),
        ("report-12345678.json", "report-12345678-", ".json"),
        ("/logs/x.tar.gz", "logs-x.tar-", ".gz"),
        (".bashrc", "bashrc-", ""),
        ("..", "file-", ""),
        ("x" * 300 + ".json", "x" * 60, ".json"),
    ],
)
def test_the_name_of_a_file_says_what_it_is(text: str, start: str, end: str) -> None:
    assert file_name(text).startswith(start)
    assert file_name(text).endswith(end)


@pytest.mark.parametrize(
    "name", ["a", "README.md", "my_file (1).txt", ".gitignore", ".git", "-rf", "a b", "語.txt", "x" * 240]
)
def test_an_ordinary_name_can_stay(name: str) -> None:
    assert is_plain_file_name(name)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "...", "a/b", "a\\b", "a:b", "a\nb", "a\x1b[2Jb", "a.", "a ", "con", "NUL.txt", "a\0", "\udcff",
     "a*", "x" * 241, "e\u0301", "\u202eexe", "a\u00a0b", 'a"b'],
)  # fmt: skip
def test_06_V6_a_name_that_some_system_or_terminal_misreads_cannot_stay(name: str) -> None:
    assert not is_plain_file_name(name)


@pytest.mark.parametrize(
    "group",
    [
        ["Task", "task", "TASK"],
        ["\u00e9", "e\u0301", "\u00c9"],
        ["straße", "strasse", "STRASSE", "STRAẞE"],
        ["a", "a ", "a.", " a", ".a", "a_", "a-", "a/", "a\\", "a\0"],
        ["A/task1", "B/task1", "A-task1", "A_task1"],
        ["CON", "con", "con.", "con.txt", "Con-txt", "con-txt"],
        ["x" * 200 + "1", "x" * 200 + "2"],
        ["語" * 250 + "一", "語" * 250 + "二"],
        ["", "-", ".", "..", "...", "_", "/", "-.", " "],
        ["\ud800", "\udc00", "-", "?"],
    ],
    ids=lambda group: repr(group[0])[:12],
)
def test_name_91_92_94_ids_that_meet_elsewhere_stay_apart_here(group: list[str]) -> None:
    names = [component_name(text) for text in group]
    folded = {unicodedata.normalize("NFC", unicodedata.normalize("NFKD", name).casefold()) for name in names}
    assert len(folded) == len(group)


@pytest.mark.parametrize(
    "text",
    ["task-1", "swe.bench+x", "日本語", "задача", "구성", "हिन्दी", "1", "é", "a@b=c,d", "x" * 80, "a.tar.gz", "con-1"],
)
def test_D6_a_safe_id_is_its_own_name(text: str) -> None:
    assert component_name(text) == text


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("HumanEval/12", "HumanEval-12"),
        ('a/b\\c:d*e?f"g<h>i|j_k l\tm', "a-b-c-d-e-f-g-h-i-j-k-l-m"),
        ("GPT", "GPT"),
        ("e\u0301", "\u00e9"),
        ("..", "--"),
        (".hidden", "-hidden"),
        ("name.", "name-"),
        ("name ", "name-"),
        ("aux.txt", "aux-txt"),
        ("nul", "nul"),
        ("", ""),
        ("x" * 81, "x" * 71),
        ("語" * 100, "語" * 23),
        ("task-12345678", "task-12345678"),
    ],
)
def test_D6_a_changed_or_cut_id_carries_a_hash_of_the_original(text: str, base: str) -> None:
    assert component_name(text) == f"{base}-{sha256(text.encode()).hexdigest()[:8]}"


def test_an_id_with_half_a_pair_leads_to_the_same_directory_after_it_was_read_back() -> None:
    text = "a\ud800/b"
    back = decode(encode(TryStarted("x", text, 0, 1), 0.0))[0]
    assert isinstance(back, TryStarted)
    assert back.task != text
    assert component_name(back.task) == component_name(text)


def test_D6_names_do_not_depend_on_the_process() -> None:
    texts = ["HumanEval/12", "straße", "x" * 300]
    code = f"from proctor.store.names import component_name as n; print([n(t) for t in {texts!r}])"
    for seed in ("1", "2"):
        command = [sys.executable, "-X", "utf8", "-c", code]
        found = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True,
                               env={"PYTHONHASHSEED": seed, "LC_ALL": "C"}).stdout  # fmt: skip
        assert found.strip() == repr([component_name(text) for text in texts])


@pytest.mark.long
@settings(max_examples=200)
@given(parts=st.tuples(st.none() | ids, ids, ids), others=st.tuples(st.none() | ids, ids, ids))
@example((None, "b", "h"), ("none", "b", "h"))
@example((None, "b", "h"), ("None", "b", "h"))
@example(("a", "b_c", "d"), ("a_b", "c", "d"))
@example(("none-", "b", "h"), (None, "b", "h"))
def test_D6_two_experiments_never_meet_in_one_directory(
    parts: tuple[str | None, str, str], others: tuple[str | None, str, str]
) -> None:
    assume(any(map(_differ, parts, others)))
    name = experiment_dir_name(*parts)
    assert len(name.encode()) <= 255
    assert name.count("_") == 2
    assert name.casefold() != experiment_dir_name(*others).casefold()


def test_the_model_is_none_where_there_is_none() -> None:
    assert experiment_dir_name(None, "trivial", "oracle") == "none_trivial_oracle"
    assert experiment_dir_name("gpt-x", "trivial", "chat") == "gpt-x_trivial_chat"
    assert re.fullmatch(r"none-[0-9a-f]{8}_trivial_chat", experiment_dir_name("none", "trivial", "chat"))


def test_levels_of_a_run_name_are_names() -> None:
    assert run_name_levels("nightly/main") == ("nightly", "main")
    assert run_name_levels("C:") == (component_name("C:"),)
    assert run_name_levels("a\\..\\b") == (component_name("a\\..\\b"),)
