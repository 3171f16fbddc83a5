"""What a family declares for all its models, and what setting up one of them costs."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from proctor.cli.resolve_parts import NO_FIELDS, model_specs
from proctor.config.schema import ModelConfig


@pytest.mark.parametrize(
    ("model", "written", "connections"),
    [
        ("local/smollm2", None, 1),
        ("local/smollm2", 3, 3),
        ("mock/echo", None, None),
        ("openai/m", None, None),
        ("anthropic/m", 5, 5),
        ("meta-llama/Llama-3", None, None),
        ("local", None, None),
    ],
)
def test_spec_03_g11_a_family_says_how_many_calls_at_once_where_nobody_else_does(model, written, connections):
    config = SimpleNamespace(model=ModelConfig(id=model, max_connections=written), judge=None)
    specs = model_specs(config, SimpleNamespace(needs_model=True), NO_FIELDS)
    assert specs["model"].max_connections == connections
    assert specs["judge"] is None


@pytest.mark.parametrize("module", ["anthropic", "openai", "local", "mock"])
def test_spec_11_a_family_is_found_without_its_client(module):
    code = (
        f"import sys, proctor.models.{module};"
        "print([m for m in ('pydantic_ai', 'openai', 'anthropic', 'xllamacpp', 'aiohttp') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
