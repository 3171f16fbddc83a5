"""From what was typed to plugins and limits: precedence, and addresses that hold credentials (spec 02)."""

from __future__ import annotations

import pytest
from declaring import controls_of, experiment_of

from proctor.cli.controls import Controls
from proctor.errors import UsageError


def address(url: str) -> str | None:
    model = experiment_of("trivial", "chat", "mock/echo", assignments=(f"model.base_url={url}",)).model
    assert model is not None
    return model.base_url


@pytest.mark.parametrize(
    "url",
    [
        "http://user:secret-pw@host/v1",
        "http://secret-pw@host/v1",
        "http://user:secret/pw@host/v1",
        "//user:secret-pw@host/v1",
        "user:secret-pw@host/v1",
        "http:\\\\user:secret-pw@host",
        "http://user:12/secret-pw@host",
        "https://host/v1?api_key=secret-pw",
        "https://host/v1?version=2&access_token=secret-pw",
        "https://host/v1?key=secret-pw#x",
    ],
)
def test_an_address_that_holds_a_credential_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(UsageError, match=r"model\.base_url holds a user name, password or key") as caught:
        address(url)
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000/v1", "https://host/a%40b/v1?api-version=2026-01-01", "http://[::1]:80/v1"]
)
def test_any_other_address_is_kept_as_it_is(url: str) -> None:
    assert address(url) == url


def controls(results_dir: str | None, *assignments: str) -> Controls:
    return controls_of(assignments=assignments, results_dir=results_dir)


def test_the_command_line_wins_over_set_and_set_over_the_default() -> None:
    assert controls(None).results_dir == "results"
    assert controls(None, "runtime.results_dir=a").results_dir == "a"
    assert controls("b", "runtime.results_dir=a").results_dir == "b"


@pytest.mark.parametrize("flag", ["", "a\0b"])
def test_an_empty_results_directory_is_refused_and_is_not_the_default(flag: str) -> None:
    with pytest.raises(UsageError, match="results_dir"):
        controls(flag)
    with pytest.raises(UsageError, match="results_dir"):
        controls(None, "runtime.results_dir=")
