"""The table of statuses (spec 05) and what is said of a refusal."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proctor.model.codes import CODES, Scope, code_of_status
from proctor.models._http_errors import (
    MESSAGE_CHARACTERS,
    SHORTEST_SECRET,
    code_of_refusal,
    redacted,
)

NAMED = {
    401: "model.refused_auth",
    402: "model.payment",
    403: "model.refused_auth",
    404: "model.not_found",
    408: "model.timeout",
    409: "model.overloaded",
    425: "model.overloaded",
    429: "model.rate_limited",
    503: "model.overloaded",
    529: "model.overloaded",
}


@pytest.mark.parametrize("status", range(400, 600))
def test_spec_05_every_status_has_the_code_of_the_table(status):
    expected = NAMED.get(status, "model.invalid_request" if status < 500 else "model.server")
    assert code_of_status(status) == expected
    assert expected in CODES


@pytest.mark.parametrize(
    ("status", "permanent"),
    [(status, True) for status in (400, 401, 402, 403, 404, 413, 422)]
    + [(status, False) for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)],
)
def test_spec_05_a_limit_that_passes_is_not_permanent_and_a_wrong_request_is(status, permanent):
    assert CODES[code_of_status(status)].permanent is permanent


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_spec_05_a_wrong_key_or_model_stops_the_model_not_only_the_attempt(status):
    assert CODES[code_of_status(status)].scope is Scope.MODEL


@pytest.mark.parametrize("status", [301, 307, 100, 204, 600, 0])
def test_what_is_no_error_status_is_the_servers_fault(status):
    assert code_of_status(status) == "model.server"


def test_a_spent_quota_is_told_apart_from_a_short_limit_by_the_providers_code():
    assert code_of_refusal(429, "insufficient_quota") == "model.payment"
    assert code_of_refusal(429, "rate_limit_exceeded") == "model.rate_limited"
    assert code_of_refusal(429, None) == "model.rate_limited"
    assert code_of_refusal(500, "insufficient_quota") == "model.server"


@settings(deadline=None, max_examples=100)
@given(
    secret=st.text(alphabet="abcdefghij-_", min_size=SHORTEST_SECRET, max_size=60),
    parts=st.lists(st.text(max_size=200), max_size=6),
)
def test_a_secret_is_never_in_a_message_wherever_it_is_cut(secret, parts):
    said = redacted(secret.join(parts), [secret])
    assert secret not in said or secret in "[redacted]"
    assert len(said) <= MESSAGE_CHARACTERS
    assert "\n" not in said


def test_a_secret_that_is_part_of_another_leaves_no_rest_of_it():
    assert redacted("key: abcd-efgh", ["abcd", "abcd-efgh"]) == "key: [redacted]"


def test_a_placeholder_for_a_key_does_not_match_inside_of_words():
    assert redacted("the next example", ["x"]) == "the next example"
