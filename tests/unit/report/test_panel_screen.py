"""One frame takes the place of the one before: nothing torn, nothing left behind, no flicker (spec 07)."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parents[2] / "support"))
from screen import VirtualScreen

from proctor.report.panel_lines import Line, cut, cut_line, padded, width_of, wrapped
from proctor.report.panel_screen import STYLES, Screen

COLUMNS, LINES = 30, 10

texts = st.text(st.characters(codec="ascii", categories=("L", "N", "P")), min_size=1, max_size=COLUMNS)
lines = st.builds(lambda text, style: ((text, style),), texts, st.sampled_from(["", "label", "passed", *STYLES]))
frames = st.lists(lines, min_size=1, max_size=LINES - 1)
said = st.builds(lambda text: f"{text}\n", texts)
steps = st.lists(st.one_of(frames, said), max_size=12)


def plain(line: Line) -> str:
    return "".join(text for text, _ in line).rstrip()


@settings(max_examples=150)
@given(steps=steps, colour=st.booleans())
def test_07_the_screen_shows_what_was_said_and_the_last_frame_below_it(
    steps: list[list[Line] | str], colour: bool
) -> None:
    terminal, screen = VirtualScreen(COLUMNS, LINES), Screen(colour=colour)
    spoken: list[str] = []
    frame: list[Line] = []
    for step in steps:
        if isinstance(step, str):
            spoken.append(step.rstrip())
            terminal.feed(screen.above(step, COLUMNS))
        else:
            frame = step
            terminal.feed(screen.draw(step, COLUMNS))
    assert terminal.text == "\n".join([*spoken, *map(plain, frame)]).rstrip("\n")
    assert terminal.unknown == [], "no mode is changed and no cursor hidden: whatever ends the process, all is well"
    assert terminal.column == 0
    assert terminal.row == len(spoken) + len(frame), "the cursor rests below the panel"


@settings(max_examples=100)
@given(before=frames, after=frames)
def test_07_what_stays_the_same_is_not_written_again_and_nothing_is_erased_first(
    before: list[Line], after: list[Line]
) -> None:
    screen = Screen(colour=False)
    screen.draw(before, COLUMNS)
    written = screen.draw(after, COLUMNS)
    changed = [line for number, line in enumerate(after) if number >= len(before) or line != before[number]]
    assert written.count("\x1b[0K") == len(changed) + max(0, len(before) - len(after))
    assert sum(map(len, map(plain, changed))) <= len(written)
    assert screen.draw(after, COLUMNS) == "", "a frame that is the same costs nothing"


@settings(max_examples=100)
@given(before=frames, after=frames, columns=st.integers(8, COLUMNS), also=st.booleans())
def test_07_after_a_resize_no_line_of_the_last_frame_is_left(
    before: list[Line], after: list[Line], columns: int, also: bool
) -> None:
    terminal, screen = VirtualScreen(COLUMNS, 100), Screen(colour=False)
    terminal.feed(screen.above("first\n", COLUMNS) + screen.draw(before, COLUMNS))
    terminal.resize(columns, 100)
    spoken = ["first"]
    if also:
        terminal.feed(screen.above("second\n", columns))
        spoken.append("second")
    fitted = [cut_line(line, columns) for line in after]
    terminal.feed(screen.draw(fitted, columns))
    assert terminal.text == "\n".join([*spoken, *map(plain, fitted)]).rstrip("\n")


def test_07_a_process_that_was_stopped_begins_a_new_frame_below_what_others_wrote() -> None:
    terminal, screen = VirtualScreen(COLUMNS, LINES), Screen(colour=False)
    terminal.feed(screen.draw([(("one", ""),), (("two", ""),)], COLUMNS))
    terminal.feed("[1]+ Stopped\n$ fg\n")
    screen.forget()
    terminal.feed(screen.draw([(("three", ""),)], COLUMNS))
    assert terminal.text == "one\ntwo\n[1]+ Stopped\n$ fg\nthree"


def test_07_without_colour_there_are_no_codes_but_those_that_move() -> None:
    frame: list[Line] = [(("passed", "passed"), ("failed", "failed"))]
    assert Screen(colour=False).draw(frame, 40) == "passedfailed\n"
    assert "\x1b[32m" in Screen(colour=True).draw(frame, 40)


@given(text=st.text(max_size=40), cells=st.integers(1, 40))
def test_a_text_is_cut_to_the_cells_that_there_are(text: str, cells: int) -> None:
    clean = "".join(char for char in text if char.isprintable())
    assert width_of([(cut(clean, cells), "")]) <= cells
    assert width_of([(padded(clean, cells), "")]) == cells
    assert width_of(cut_line(((clean, ""), (clean, "")), cells)) <= cells


def test_a_wide_character_is_not_cut_in_half() -> None:
    assert cut("日本語", 5) == "日本…"
    assert padded("日本語", 4) == "日…" + " "


@given(items=st.lists(texts, min_size=1, max_size=12), width=st.integers(12, 100), right=st.sampled_from(["", "$1.42"]))
def test_items_are_wrapped_and_none_is_lost(items: list[str], width: int, right: str) -> None:
    found = wrapped("LABEL", [((item, ""),) for item in items], width, separator=" | ", right=((right, ""),))
    assert all(width_of(line) <= width for line in found)
    if width >= COLUMNS + 9:
        told = [text.strip() for line in found for text, _ in line if text.strip() not in ("LABEL", "|", "", right)]
        assert told == [item for item in items if item.strip() not in ("LABEL", "|", "", right)]
