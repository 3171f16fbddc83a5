"""Every text of the viewer is there in English and Chinese."""

import re
import sys
from pathlib import Path
from string import Formatter

sys.path.append(str(Path(__file__).parents[2] / "support"))
from page_content import asked
from said import TOKENS, VIEWER, of_code, of_templates, of_values

from proctor.viewer.shown import counted
from proctor.viewer.words import LANGUAGES, in_language, known, language_of

HAN = re.compile("[\u4e00-\u9fff]")
SAME_IN_BOTH = {"pass@k", "pass^k", "SHA-256", "k"}


def test_every_text_has_a_translation_and_no_translation_is_left_over() -> None:
    said = of_values() | of_templates() | of_code()
    assert said - known() == set(), "nobody has translated these"
    assert known() - said == set(), "nobody says these any more"


def test_a_translation_is_chinese_and_is_given_the_same_values() -> None:
    for text in known():
        chinese = in_language("zh", text)
        assert HAN.search(chinese), text
        assert _names(chinese) == _names(text), text


def _names(text: str) -> set[str | None]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


def test_names_of_values_read_as_words_in_english() -> None:
    assert [name for name in TOKENS if "_" in in_language("en", name)] == []


def test_templates_have_no_words_that_are_not_said() -> None:
    for path in VIEWER.glob("templates/*.html"):
        text = re.sub(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", " ", path.read_text("utf-8"), flags=re.DOTALL)
        shown = re.sub(r"<[^>]*>", "\n", text)
        words = {line.strip() for line in shown.splitlines()} - SAME_IN_BOTH
        left = {word for word in words if re.search("[A-Za-z]{2}", word)} - {"· proctor"}
        assert left == set(), path.name


def test_the_language_is_what_was_asked_for_then_what_was_kept_then_what_the_browser_prefers() -> None:
    assert language_of("zh", "en", "en") == "zh"
    assert language_of(None, "zh", "en") == "zh"
    assert language_of("xx", "<script>", "de, zh-CN;q=0.9, en;q=0.8") == "zh"
    assert language_of(None, None, "") == LANGUAGES[0]
    assert language_of("", "", ",;q,*") == "en"


def test_one_thing_is_not_said_to_be_many() -> None:
    say = asked().say
    assert say("{slots} slots of {tasks} tasks", slots=1, tasks=2) == "1 slot of 2 tasks"
    assert say("{found} of {total} runs", found=0, total=1) == "0 of 1 run"
    assert say("{tries} tries in {lanes} lanes; shown: {start} to {end} after the start", tries=1, lanes=1234, start=1,
               end="1 tasks") == "1 try in 1,234 lanes; shown: 1 to 1 tasks after the start"  # fmt: skip
    assert asked("zh").say("{tasks} tasks", tasks=1) == "1 个任务"


def test_counts_are_said_in_the_language_of_the_reader() -> None:
    counts = {"total": 1200, "passed": 3, "failed": 0, "not_dispatched": {"budget": 4}, "{odd}": 1, "x": True}
    assert counted(counts, "en") == "1,200 total, 3 passed, 1 {odd}"
    assert counted(counts, "zh").startswith("1,200 总计, 3 通过")
    assert counted({}, "en") == "-"
