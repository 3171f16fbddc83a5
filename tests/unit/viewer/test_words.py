"""Every text of the viewer is there in English and Chinese."""

import re
import sys
from importlib.resources import files
from pathlib import Path
from string import Formatter

sys.path.append(str(Path(__file__).parents[2] / "support"))
from page_content import Content, asked
from said import TOKENS, VIEWER, of_code, of_templates, of_values
from viewer_client import ask
from viewer_runs import START, Told, broken_try, good_try, make_run, sealed, started

from proctor.core.aggregate import Counts, Missing, headline
from proctor.model.attempt import Verdict
from proctor.model.codes import CODES
from proctor.report.cost_words import known_part
from proctor.report.wording import money
from proctor.store.plan_file import PlanFile, PlannedSlot, write_plan
from proctor.viewer import words_values
from proctor.viewer.app import make_app
from proctor.viewer.results import Results
from proctor.viewer.shown import counted
from proctor.viewer.words import LANGUAGES, in_language, known, language_of, phrased

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


def test_headlines_and_costs_are_said_in_the_language_of_the_reader() -> None:
    assert phrased("en", "61.0% (1/2 passed)") == "61.0% (1/2 passed)"
    said = {
        headline(Counts(total=9, passed=1, failed=2, errored=3, cancelled=1, queued=1, running=1)),
        headline(Counts(total=9, passed=1, failed=2, errored=3, skipped=3), Missing.ZERO),
        headline(Counts(total=9, passed=1, failed=2, errored=6), Missing.EXCLUDE),
        headline(Counts(total=9, passed=1, failed=2, errored=6), Missing.FAIL),
        headline(Counts(total=3, errored=3)),
        "50.0% (1/2 tasks solved at least once, 1 not decided: left out; early exit, so pass@1 would be biased)",
        money(None), money(0.00001), known_part(None, 0.5, 2), known_part(None, 0.5, 1, "attempt"),
    }  # fmt: skip
    for text in said:
        chinese = phrased("zh", text).replace("pass@1", "")
        assert re.search("[A-Za-z]", chinese) is None, (text, chinese)
        assert re.findall(r"[\d.]+%?", chinese) == re.findall(r"[\d.]+%?", text.replace("pass@1", "")), "numbers stay"


def test_the_names_of_tests_are_those_that_a_comparison_uses() -> None:
    source = Path(str(files("proctor.core").joinpath("compare.py"))).read_text("utf-8")
    assert [name for name in words_values.TESTS if f'"{name}"' not in source] == []


def test_a_page_in_chinese_has_english_only_where_somebody_named_something_so(tmp_path: Path) -> None:
    def of(letter: str, task: str) -> list[Told]:
        own = letter * 12
        return [*good_try(own, task, START), sealed(own, task, START + 10, verdict=Verdict.PASSED)]

    for run in ("e/r1", "e/r2"):
        broken = [*broken_try("c" * 12, "N3", START, "N"), sealed("c" * 12, "N3", START + 3, verdict=Verdict.ERRORED)]
        layout = make_run(tmp_path, [started("N"), *of("a", "N1"), *of("b", "N2"), *broken], run)
        slots = [PlannedSlot(task, 0, "0" * 16) for task in ("N1", "N2", "N3", "N4")]
        about = {name: {"id": "N"} for name in ("benchmark", "harness", "model")}
        write_plan(layout.plan, PlanFile({"name": "N", **about}, slots, {"model": run[-1]}, {}, {}))
    app = make_app(Results(tmp_path), None)
    ours = re.compile(
        r"English|N\d?|[abcd]{12}|r[12]|box|proctor|pass[@^]k|SHA|journal\.jsonl|plan\.json|harness\.crashed|model|"
        r"harness|style|\d[smh]\d*|McNemar|AB"
    )
    for path in (
        "/?", "/run/e/r1?", f"/attempt/{'a' * 12}/e/r1?", f"/attempt/{'c' * 12}/e/r1?", "/lanes/e/r1?", "/gone?",
        "/compare?run=e/r1&run=e/r2&", "/run/N?", f"/attempt/{'d' * 12}/e/r1?", "/file/e/r1?path=N&",
    ):  # fmt: skip
        text = ask(app, f"{path}lang=zh").text.replace(CODES["harness.crashed"].action, "")
        page = Content(text)
        titles = re.findall(r'(?:title|aria-label)="([^"]*)"', text)
        for shown in (page.text, *titles):
            assert re.findall(r"[A-Za-z]{2,}", ours.sub("", shown)) == [], path
