"""Events to lines and back (spec 08 D1, D4)."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import math
import re
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_cases import AT, EVENT_STRATEGIES, events, moments, noop_attempt, rich_run

from proctor.errors import JournalDamaged, StoreError
from proctor.model.attempt import Check, Grade, Outcome, Phase, TryResult, Usage, Verdict, issue_of
from proctor.model.events import (
    EVENT_TYPES,
    FINAL_EVENTS,
    AttemptSealed,
    Event,
    GradingQueued,
    IssueRaised,
    PhaseEnded,
    RunStarted,
    SlotFilled,
    TryEnded,
    TryStarted,
)
from proctor.store.codec import FORMAT_VERSION, NewerFormat, NotEncodable, decode, encode, seconds_of, stamp
from proctor.store.record_lines import read_line

A = "abcdefghijkl"

FORMAT_1 = """\
{"type":"RunStarted","at":"2026-11-30T16:30:35.000000Z","format":1,"invocation":"i","run":"r","experiment":"e",\
"proctor":"0.1.0","host":"h","pid":1,"slots":2}
{"type":"SlotFilled","at":"2026-11-30T16:30:35.000001Z","attempt":"b","task":"t","ordinal":1,"run":"m_b_h/r","verdict":"failed","score":0.0}
{"type":"TryStarted","at":"2026-11-30T16:30:35.000001Z","attempt":"a","task":"t","ordinal":0,"try_number":1}
{"type":"SandboxOpened","at":"2026-11-30T16:30:35.000002Z","attempt":"a","try_number":1,"sandbox":"s","purpose":"agent"}
{"type":"SandboxDisposed","at":"2026-11-30T16:30:35.000003Z","attempt":"a","sandbox":"s"}
{"type":"SandboxKept","at":"2026-11-30T16:30:35.000003Z","attempt":"a","try_number":1,"sandbox":"s",\
"purpose":"agent","provider":"bwrap"}
{"type":"ImageWaitStarted","at":"2026-11-30T16:30:35.000003Z","attempt":"a","image":"alpine:3"}
{"type":"ImageWaitEnded","at":"2026-11-30T16:30:35.000003Z","attempt":"a","seconds":2.5}
{"type":"PhaseStarted","at":"2026-11-30T16:30:35.000004Z","attempt":"a","phase":"agent"}
{"type":"PhaseEnded","at":"2026-11-30T16:30:35.000005Z","attempt":"a","phase":"agent","seconds":0.25}
{"type":"WorkCheckpointed","at":"2026-11-30T16:30:35.000006Z","attempt":"a","try_number":1}
{"type":"GradingQueued","at":"2026-11-30T16:30:35.000007Z","attempt":"a"}
{"type":"GradingStarted","at":"2026-11-30T16:30:35.000008Z","attempt":"a"}
{"type":"IssueRaised","at":"2026-11-30T16:30:35.000009Z","attempt":"a","issue":{"code":"time.agent","message":"m",\
"severity":"ERROR","owner":"agent"}}
{"type":"TryEnded","at":"2026-11-30T16:30:35.000010Z","attempt":"a","try_number":1,"result":{"outcome":"graded",\
"grade":{"solved":true,"score":1.0}}}
{"type":"AttemptSealed","at":"2026-11-30T16:30:35.000011Z","attempt":"a","task":"t","ordinal":0,"verdict":"passed",\
"score":1.0,"tries":1}
{"type":"DispatchStopped","at":"2026-11-30T16:30:35.000012Z","experiment":"e","reason":"interrupt","slots":1}
{"type":"Interrupted","at":"2026-11-30T16:30:35.000013Z","signal":2}
{"type":"RunEnded","at":"2026-11-30T16:30:35.000014Z","experiment":"e","completion":"interrupted"}
{"type":"BackoffStarted","at":"2026-11-30T16:30:35.000015Z","attempt":"a","code":"model.overloaded","seconds":2.5}
{"type":"BackoffEnded","at":"2026-11-30T16:30:35.000016Z","attempt":"a","seconds":2.5}
{"type":"TryResumed","at":"2026-11-30T16:30:35.000016Z","attempt":"a"}
{"type":"TryEnded","at":"2026-11-30T16:30:35.000017Z","attempt":"a","try_number":1,"result":{"outcome":"cancelled"},\
"sandbox_reusable":false,"retry_after_seconds":30.0}
{"type":"LeaseGranted","at":"2026-11-30T16:30:35.000018Z","experiment":"e"}
{"type":"LeaseRefused","at":"2026-11-30T16:30:35.000019Z","experiment":"e","message":"m"}
{"type":"LeaseReleased","at":"2026-11-30T16:30:35.000020Z","experiment":"e"}
{"type":"SetupEnded","at":"2026-11-30T16:30:35.000021Z","experiment":"e"}
{"type":"TeardownEnded","at":"2026-11-30T16:30:35.000022Z","experiment":"e","issue":{"code":"internal","message":"m",\
"severity":"FATAL","owner":"runner"}}
{"type":"LaneClosed","at":"2026-11-30T16:30:35.000023Z","lane":"l","experiment":"e"}
"""


@pytest.mark.parametrize("kind", EVENT_TYPES, ids=lambda kind: kind.__name__)
def test_every_event_comes_back_equal(kind: type[Event]) -> None:
    @settings(max_examples=40)
    @given(event=EVENT_STRATEGIES[kind], at=moments)
    def check(event: Event, at: float) -> None:
        line = encode(event, at)
        assert line.endswith(b"\n")
        assert line.count(b"\n") == 1
        assert decode(line) == (event, at)
        assert encode(*decode(line)) == line

    check()


@settings(max_examples=100)
@given(event=events)
def test_a_line_is_what_the_format_says(event: Event) -> None:
    line = json.loads(encode(event, AT))
    assert list(line)[:2] == ["type", "at"]
    assert line["type"] == type(event).__name__
    assert line["at"] == "2026-11-30T16:30:35.123456Z"
    assert set(line) - {"type", "at"} <= {field.name for field in dataclasses.fields(event)}


def test_lines_are_compact() -> None:
    expected = (
        b'{"type":"TryStarted","at":"2026-11-30T16:30:35.123456Z","attempt":"abcdefghijkl","task":"a","ordinal":0,'
        b'"try_number":1}\n'
    )
    assert encode(TryStarted(A, "a", 0, 1), AT) == expected


def test_D4_journals_of_format_1_are_read_and_still_written_the_same() -> None:
    lines = FORMAT_1.encode().splitlines(keepends=True)
    decoded = [decode(line) for line in lines]
    assert {type(event) for event, _ in decoded} == set(EVENT_TYPES), "every event type belongs into this fixture"
    assert [encode(event, at) for event, at in decoded] == lines


def test_D4_a_newer_journal_is_refused_with_what_to_do() -> None:
    newer = encode(RunStarted(FORMAT_VERSION + 1, "i", "r", "e", "9", "h", 1, 1), AT)
    with pytest.raises(StoreError, match=rf"format {FORMAT_VERSION + 1}: written by a newer proctor") as caught:
        decode(newer)
    assert "upgrade" in str(caught.value.hint)


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"RunStarted","at":"2026-11-30T16:30:35.123456Z","format":2,"entirely":"different"}\n',
        b'{"type":"SomethingNew","at":"2026-11-30T16:30:35.123456Z","x":1}\n',
    ],
)
def test_D4_what_only_a_newer_proctor_writes_is_no_damage(line: bytes) -> None:
    with pytest.raises(NewerFormat, match="newer proctor"):
        decode(line)


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"\0\0\0\0\n",
        b"null\n",
        b"[]\n",
        b"{}\n",
        b'{"type":"SomethingNew","at":\n',
        b'{"type":1}\n',
        b'{"type":"GradingQueued","attempt":"a"}\n',
        b'{"type":"GradingQueued","at":"yesterday","attempt":"a"}\n',
        b'{"type":"GradingQueued","at":"2026-11-30T16:30:35","attempt":"a"}\n',
        b'{"type":"GradingQueued","at":"2026-11-30T16:30:35.123456Z"}\n',
        b'{"type":"GradingQueued","at":"2026-11-30T16:30:35.123456Z","attempt":1}\n',
        b'{"type":"GradingQueued","at":"2026-11-30T16:30:35.123456Z","attempt":"\xff"}\n',
        b'{"type":"PhaseEnded","at":"2026-11-30T16:30:35.123456Z","attempt":"a","phase":"nap","seconds":1}\n',
        b'{"type":"PhaseEnded","at":"2026-11-30T16:30:35.123456Z","attempt":"a","phase":"open","seconds":"1"}\n',
        b'{"type":"PhaseEnded","at":"2026-11-30T16:30:35.123456Z","attempt":"a","phase":"open","seconds":1e999}\n',
        b'{"type":"TryEnded","at":"2026-11-30T16:30:35.123456Z","attempt":"a","try_number":1,'
        b'"result":{"outcome":"graded"}}\n',
        b"[" * 100_000 + b"\n",
        b'{"type":"GradingQueued","at":"2026-11-30T16:30:35.123456Z","attempt":"a","x":' + b"[" * 5000 + b"\n",
    ],
    ids=lambda line: line[:60].decode("latin-1"),
)
def test_a_damaged_line_is_named_as_damage(line: bytes) -> None:
    with pytest.raises(JournalDamaged, match="not an event"):
        decode(line)


@settings(max_examples=200)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_an_event_or_a_store_error(data: bytes) -> None:
    with pytest.raises(StoreError):
        decode(data)


@settings(max_examples=200)
@given(event=events, position=st.integers(0), byte=st.integers(0, 255))
def test_a_flipped_byte_is_an_event_or_a_store_error(event: Event, position: int, byte: int) -> None:
    line = bytearray(encode(event, AT))
    line[position % (len(line) - 1)] = byte
    with contextlib.suppress(StoreError):
        decode(bytes(line))


IMPOSSIBLE = [
    AttemptSealed(A, "t", 0, Verdict.PASSED, 1.5, 1),
    AttemptSealed(A, "t", 0, Verdict.FAILED, -1e-9, 1),
    SlotFilled(A, "t", 0, "e/r", Verdict.PASSED, 1e308),
    SlotFilled(A, "t", 0, "e/r", Verdict.PASSED, 1.0, -0.5),
]


@pytest.mark.parametrize("event", IMPOSSIBLE, ids=repr)
def test_M5_a_score_or_a_cost_that_cannot_be_is_damage_and_is_not_written(event: AttemptSealed | SlotFilled) -> None:
    right = replace(event, score=1.0, **({"cost_usd": 0.5} if isinstance(event, SlotFilled) else {}))
    line = json.loads(encode(right, AT))
    assert decode(json.dumps(line).encode()) == (right, AT)
    line["score"] = event.score
    if isinstance(event, SlotFilled):
        line["cost_usd"] = event.cost_usd
    damaged = json.dumps(line).encode()
    for read in (decode, read_line):
        with pytest.raises(JournalDamaged, match=r"a score is from 0 to 1|a cost is at least 0"):
            read(damaged)
    with pytest.raises(NotEncodable, match=r"a score is from 0 to 1|a cost is at least 0"):
        encode(event, AT)


TEXTS = {
    "high half": ("a\ud83db", r"a\ud83db"),
    "low half": ("\ude00", r"\ude00"),
    "both halves apart": ("\ud83d\ude00", r"\ud83d\ude00"),
    "undecodable file name": (b"caf\xe9".decode("utf-8", "surrogateescape"), r"caf\udce9"),
    "nul": ("a\0b", "a\0b"),
    "line separator": ("a\u2028b\u2029\x85\x0b", "a\u2028b\u2029\x85\x0b"),
    "newlines": ("a\nb\r\nc", "a\nb\r\nc"),
    "escape that was there": (r"\ud83d", r"\ud83d"),
    "5 MB": ("日本x" * 700_000, "日本x" * 700_000),
    "5 MB with a half": ("x" * 5_000_000 + "\ud800", "x" * 5_000_000 + r"\ud800"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_out_126_every_text_is_stored_and_read_back(name: str) -> None:
    """Equal, or by the documented escape; in every place where a text can stand."""
    text, stored = TEXTS[name]
    grade = Grade(True, 1.0, {text: 1.0}, (Check(text, True, text, text, text),))
    event = TryEnded(A, 1, TryResult(Outcome.GRADED, grade, issues=(issue_of("time.agent", text),)))
    line = encode(event, AT)
    line.decode("utf-8")
    assert line.count(b"\n") == 1
    expected = Grade(True, 1.0, {stored: 1.0}, (Check(stored, True, stored, stored, stored),))
    assert decode(line)[0] == TryEnded(
        A, 1, TryResult(Outcome.GRADED, expected, issues=(issue_of("time.agent", stored),))
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_never_written(value: float) -> None:
    with pytest.raises(NotEncodable, match=r"PhaseEnded\.seconds.* not a finite number"):
        encode(PhaseEnded(A, Phase.AGENT, value), AT)
    with pytest.raises(NotEncodable, match="`at` is"):
        encode(GradingQueued(A), value)


def test_a_number_that_is_not_finite_is_found_in_any_depth() -> None:
    grade = Grade(True, 1.0, {"a": 1.0})
    object.__setattr__(grade, "sub_scores", {"a": math.nan})
    with pytest.raises(NotEncodable, match=r"TryEnded\.result\.grade\.sub_scores\['a'\]` is nan"):
        encode(TryEnded(A, 1, TryResult(Outcome.GRADED, grade)), AT)


def test_the_word_null_in_a_text_is_no_number() -> None:
    event = IssueRaised(A, issue_of("time.agent", "null"))
    assert decode(encode(event, AT)) == (event, AT)


class _Text(str):
    __slots__ = ()


class _Number(float):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({1, 2}, "set"),
        (b"bytes", "bytes"),
        (datetime.date(2026, 11, 30), "date"),
        (7, "int"),
        (object(), "object"),
        (True, "bool"),
    ],
)
def test_store_66_a_value_of_a_wrong_type_is_refused_with_its_place(value: Any, said: str) -> None:
    """Nothing is written that could not be read back as the same."""
    issue = issue_of("time.agent", value)
    event = TryEnded(A, 1, TryResult(Outcome.CANCELLED, issues=(issue_of("time.agent", "fine"), issue)))
    with pytest.raises(NotEncodable, match=rf"issues\[1\]\.message.*{said}|{said}.*issues\[1\]\.message"):
        encode(event, AT)


def test_store_66_a_value_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    with pytest.raises(NotEncodable, match=r"\['again'\]"):
        encode(IssueRaised(A, issue_of("time.agent", loop)), AT)  # pyright: ignore[reportArgumentType]


def test_subclasses_of_plain_types_become_the_plain_types() -> None:
    event = PhaseEnded(_Text(A), Phase.AGENT, _Number(1.5))
    back = decode(encode(event, AT))[0]
    assert back == PhaseEnded(A, Phase.AGENT, 1.5)
    grade = Grade(True, 1, MappingProxyType({"a": 1}))
    back = decode(encode(TryEnded(A, 1, TryResult(Outcome.GRADED, grade)), AT))[0]
    assert back == TryEnded(A, 1, TryResult(Outcome.GRADED, Grade(True, 1.0, {"a": 1.0})))


@settings(max_examples=200)
@given(at=st.floats(0, 2.0**32))
def test_stamps_are_utc_to_the_microsecond_and_stable(at: float) -> None:
    text = stamp(at)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", text)
    assert abs(seconds_of(text) - at) <= 1e-6
    assert stamp(seconds_of(text)) == text


def test_stamps_carry_into_the_next_second_and_refuse_what_is_no_moment() -> None:
    assert stamp(0.9999999) == "1970-01-01T00:00:01.000000Z"
    for at in (-1.0, 1e20, math.nan):
        with pytest.raises(NotEncodable):
            stamp(at)


def test_the_words_of_verdicts_stand_only_as_verdicts() -> None:
    """A person may count with grep: "passed" and "failed" are values of `verdict` and nothing else."""
    text = b"".join(encode(event, at) for event, at in rich_run()).decode()
    places = [text[: found.start()] for found in re.finditer(r'"(passed|failed)"', text)]
    assert len(places) == 3
    assert all(before.endswith('"verdict":') for before in places)


def test_events_that_end_something_stay_the_same_on_their_way_through_a_journal() -> None:
    final = [(event, at) for event, at in rich_run() if isinstance(event, FINAL_EVENTS)]
    assert len(final) == 10
    for event, at in final:
        if "\ud800" not in repr(event) and "\\ud" not in repr(event):
            assert decode(encode(event, at))[0] == event


def test_usage_that_is_empty_costs_no_space_and_usage_that_is_not_is_whole() -> None:
    assert b"usage" not in b"".join(encode(event, AT) for event in noop_attempt(A, "t"))
    used = Usage(calls=1, cost_usd=0.0)
    line = encode(TryEnded(A, 1, TryResult(Outcome.CANCELLED, usage=used)), AT)
    assert json.loads(line)["result"]["usage"] == {"calls": 1, "cost_usd": 0.0}, "a cost of zero is not an unknown one"
