"""What a model behind an endpoint takes, and what is refused before anything is sent."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from proctor.errors import MissingPackage, UsageError
from proctor.model.spec import ModelSpec
from proctor.models.openai import open_model


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def own(model_id="openai/m", **params):
    return ModelSpec(id=model_id, base_url="http://127.0.0.1:9/v1", params=params)


def opened(spec):
    asyncio.run(open_model(spec).close())


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": 0},
        {"temperature": 0.7, "top_p": 1, "max_tokens": 1, "seed": -3, "stop": "END", "timeout_seconds": 0.5},
        {"stop": ["a", "b"], "extra_body": {"chat_template_kwargs": {"thinking": False}}},
    ],
)
def test_parameters_that_are_taken(params):
    opened(own(**params))


@pytest.mark.parametrize(
    "params",
    [
        {"temperature": "0.5"},
        {"temperature": -1},
        {"temperature": float("nan")},
        {"temperature": True},
        {"top_p": 1.5},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"max_tokens": True},
        {"seed": "1"},
        {"stop": 3},
        {"timeout_seconds": 0},
        {"timeout_seconds": float("inf")},
        {"extra_body": [1]},
    ],
)
def test_parameters_that_are_refused(params):
    (name,) = params
    with pytest.raises(UsageError, match=f"model `openai/m`: parameter `{name}` is not valid"):
        open_model(own(**params))


def test_an_unknown_parameter_names_the_nearest_and_all():
    with pytest.raises(UsageError, match=r"has no parameter `temprature`; did you mean `temperature`\?") as caught:
        open_model(own(temprature=1))
    assert "`timeout_seconds`" in caught.value.hint


def test_another_prefix_needs_an_endpoint():
    with pytest.raises(UsageError, match="model `meta-llama/Llama-3` has no endpoint") as caught:
        open_model(ModelSpec(id="meta-llama/Llama-3"))
    assert caught.value.hint == "set model.base_url"
    opened(own("meta-llama/Llama-3"))


def test_a_prefix_alone_names_no_model():
    with pytest.raises(UsageError, match="names no model"):
        open_model(own("openai/"))


def test_the_default_endpoint_needs_a_key_and_the_variable_is_named(monkeypatch):
    with pytest.raises(UsageError, match="has no API key") as caught:
        open_model(ModelSpec(id="openai/gpt"))
    assert "OPENAI_API_KEY" in caught.value.hint
    with pytest.raises(UsageError, match="has no API key"):
        open_model(ModelSpec(id="gpt", base_url="https://api.openai.com/v1/"))
    opened(ModelSpec(id="openai/gpt", api_key="sk-given"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-environment")
    opened(ModelSpec(id="openai/gpt"))


@pytest.mark.parametrize(
    "base_url", ["", "localhost:8000/v1", "ftp://host/v1", "http://", "http://host:port/v1", "http://[::1/v1"]
)
def test_an_address_that_is_none_is_refused(base_url):
    with pytest.raises(UsageError, match="is not a web address"):
        open_model(ModelSpec(id="openai/m", base_url=base_url))


@pytest.mark.parametrize("package", ["pydantic_ai", "openai"])
def test_a_missing_package_is_said_with_the_line_that_installs_it(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackage) as caught:
        open_model(own())
    assert caught.value.hint == 'run `pip install "pydantic-ai-slim[openai]"`'


def test_wrong_parameters_are_said_without_loading_the_client():
    code = (
        "import sys; from proctor.models.openai import open_model; from proctor.model.spec import ModelSpec\n"
        "try: open_model(ModelSpec(id='openai/m', params={'x': 1}))\n"
        "except Exception as e: print(type(e).__name__, [m for m in ('pydantic_ai', 'openai') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "UsageError []"
