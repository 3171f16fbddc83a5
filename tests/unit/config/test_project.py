"""The project of a command: its files, their precedence, variables, `.env` (spec 02)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proctor.cli.resolve import resolve
from proctor.config.declare import declare
from proctor.config.layers import Layer, Layered, Level, Source
from proctor.config.project import Project, load_project
from proctor.config.scalars import Substituted
from proctor.errors import UsageError

SUPPORT = Path(__file__).parents[2] / "support"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SUPPORT))
    return tmp_path


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / {"project": "proctor.yaml", "env": ".env"}.get(name, f"{name}.yaml")).write_text(text)


def project_in(folder: Path, *config: str, **environ: str) -> Project:
    return load_project(folder, [folder / name for name in config], environ)


def value(layered: Layered, *path: str) -> tuple[Any, str]:
    found: Any = layered.tree
    for key in path:
        found = found[key]
    return found, str(layered.source_of(path))


# --------------------------------------------------------------------------------------------------- finding


def test_the_nearest_file_upward_is_the_project(folder: Path) -> None:
    write(folder, project="execution: {attempts: 1}")
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    assert load_project(inner, [], {}).directory == folder
    write(folder / "a", project="")
    assert load_project(inner, [], {}).directory == folder / "a"


def test_without_a_file_there_are_no_layers_and_the_start_is_the_project(folder: Path) -> None:
    project = load_project(folder, [], {})
    assert (project.directory, project.layers) == (folder, ())


def test_02_later_files_win_over_earlier_ones_and_all_over_the_project(folder: Path) -> None:
    write(
        folder,
        project="execution: {attempts: 1, max_retries: 1, task_concurrency: 1}",
        a="execution:\n  max_retries: 2\n  task_concurrency: 2\n",
        b="execution: {task_concurrency: 3}",
    )
    section = project_in(folder, "a.yaml", "b.yaml").section("execution")
    assert value(section, "attempts") == ("1", "proctor.yaml:1")
    assert value(section, "max_retries") == ("2", "a.yaml:2")
    assert value(section, "task_concurrency") == ("3", "b.yaml:1")
    assert str(section.source_of(("timeout_seconds",))) == "default"


def test_02_given_layers_lie_over_the_files_and_typed_ones_over_these(folder: Path) -> None:
    write(folder, project="execution: {attempts: 1, max_retries: 1, task_concurrency: 1}")
    given = Layer(Source(Level.DEFAULTS, "launch"), {"max_retries": 2, "task_concurrency": 2})
    typed = {"execution": [Layer(Source(Level.SET, "--set"), {"task_concurrency": 3})]}
    section = project_in(folder).with_typed([], typed).section("execution", [given])
    assert [value(section, name)[1] for name in ("attempts", "max_retries", "task_concurrency")] == [
        "proctor.yaml:1",
        "launch",
        "--set",
    ]


def test_sections_and_entries_may_be_empty(folder: Path) -> None:
    write(folder, project="execution:\nruntime: ~\nmodels:\n  m:\nbenchmarks:\n  trivial: {}\n")
    assert project_in(folder).table("models").tree == {"m": {}}


@pytest.mark.parametrize("extra", [[], ["x.yaml"]])
def test_02_all_that_is_wrong_with_all_files_is_said_at_once(folder: Path, extra: list[str]) -> None:
    write(
        folder,
        project="execution: {attempts: 0}\nmodels: {a: 1, a: 2}\n",
        x="runtime:\n  lease_wait: 3\n",
        y="a: [\n",
    )
    with pytest.raises(UsageError) as caught:
        project_in(folder, *extra, "y.yaml", "z.yaml")
    message = caught.value.message
    assert "proctor.yaml:1: `execution.attempts`" in message
    assert "proctor.yaml:2: the key `a` in `models` is there twice" in message
    assert "y.yaml:2: not valid YAML" in message or "y.yaml:1: not valid YAML" in message
    assert "cannot read `z.yaml`" in message
    assert ("x.yaml:2: unknown field `runtime.lease_wait`; did you mean `lease_wait_seconds`?" in message) == bool(
        extra
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("runtime: {engine: ray}", "`runtime.engine`: is not supported yet; `local` is the only one that is"),
    ],
)
def test_what_would_have_no_effect_is_refused_and_never_ignored(folder: Path, text: str, says: str) -> None:
    write(folder, project=text)
    with pytest.raises(UsageError) as caught:
        project_in(folder)
    assert says in caught.value.message
    write(folder, project="runtime: {engine: local}")
    project_in(folder)


# ------------------------------------------------------------------------------------------------------ variables


def test_02_env_file_adds_and_never_overrides(folder: Path) -> None:
    write(
        folder,
        project="models: {m: {api_key: '${KEY}', base_url: '${URL}', identity: '${OWN:-none}'}}",
        env="# note\nKEY=from-file\nexport URL='http://x'\nexport BARE\nREF=${KEY}\n",
    )
    project = project_in(folder, KEY="from-environment")
    model = project.table("models").tree["m"]
    assert model == {"api_key": "from-environment", "base_url": "http://x", "identity": "none"}
    assert project.environ == {"KEY": "from-environment", "URL": "http://x", "REF": "${KEY}"}
    assert project.secrets == {"from-environment", "http://x"}


def test_a_variable_that_is_not_set_is_an_error_only_where_it_is_used(folder: Path) -> None:
    """A project may name models for which not everybody has a key."""
    write(folder, project="models:\n  a: {api_key: '${NONE}'}\n  b: {id: mock/echo}\n", x="models: {a: {api_key: k}}")
    project = project_in(folder)
    given = layer(Level.DECLARED, benchmark="trivial", harness="chat", model="b")
    assert resolve(declare(project, "e", [given])).experiment.model is not None
    used = layer(Level.DECLARED, benchmark="trivial", harness="chat", model="a")
    with pytest.raises(UsageError) as caught:
        resolve(declare(project, "e", [used]))
    assert "proctor.yaml:2: `models.a.api_key`: the environment variable `NONE` is not set" in caught.value.message
    over = declare(project_in(folder, "x.yaml"), "e", [used]).fields
    assert value(over, "model", "api_key") == ("k", "x.yaml:1")
    write(folder, project="execution: {attempts: '${NONE}'}")
    with pytest.raises(UsageError, match="NONE"):
        project_in(folder)


def test_the_env_file_is_that_of_the_project(folder: Path) -> None:
    write(folder, project="execution: {attempts: '${N}'}", env="N=3")
    (folder / "sub").mkdir()
    assert value(load_project(folder / "sub", [], {}).section("execution"), "attempts")[0] == "3"


@pytest.mark.parametrize("text", ["KEY='open\n", "A B=1\n", 'K="x\0y"\n', "=1\n"])
def test_an_env_file_that_is_none_names_the_line_and_no_value(folder: Path, text: str) -> None:
    write(folder, env="FIRST=1\n" + text.replace("open", "hunter2"))
    with pytest.raises(UsageError) as caught:
        project_in(folder)
    assert ".env:2: not of the form NAME=value" in caught.value.message
    assert "hunter2" not in str(caught.value)


def test_an_env_file_in_another_encoding_is_refused(folder: Path) -> None:
    (folder / ".env").write_bytes(b"A=caf\xe9\n")
    with pytest.raises(UsageError, match=r"cannot read `\.env`: it is not in UTF-8"):
        project_in(folder)


# ---------------------------------------------------------------------------------------------------- experiments

FILE = """\
models:
  gpt: {id: openai/gpt-x, base_url: "http://a/v1", params: {temperature: 0}}
  other: {base_url: "http://b/v1"}
  short: openai/gpt-s
benchmarks:
  trivial: {params: {tasks: 3}}
harnesses:
  chat: {params: {system: be brief}}
environments:
  local: {env: {A: one, B: two}}
"""


def fields(folder: Path, *given: Layer) -> Layered:
    write(folder, project=FILE)
    return declare(project_in(folder), "e", given).fields


def layer(level: Level, **tree: Any) -> Layer:
    return Layer(Source(level, level.name.lower()), tree)


def test_02_parts_may_be_given_by_name_alone_and_begin_with_the_defaults_of_the_project(folder: Path) -> None:
    found = fields(folder, layer(Level.DECLARED, benchmark="trivial", harness="chat", model="gpt", environment="local"))
    assert found.tree == {
        "benchmark": {"id": "trivial", "params": {"tasks": "3"}},
        "harness": {"id": "chat", "params": {"system": "be brief"}},
        "model": {"id": "openai/gpt-x", "base_url": "http://a/v1", "params": {"temperature": "0"}},
        "environment": {"provider": "local", "env": {"A": "one", "B": "two"}},
    }
    assert str(found.source_of(("model", "id"))) == "proctor.yaml:2"
    assert str(found.source_of(("benchmark", "id"))) == "declared"


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("short", {"id": "openai/gpt-s"}),
        ("other", {"id": "other", "base_url": "http://b/v1"}),
        ("mock/echo", {"id": "mock/echo"}),
    ],
)
def test_02_a_model_is_an_alias_or_an_id(folder: Path, name: str, model: dict[str, Any]) -> None:
    assert fields(folder, layer(Level.DECLARED, benchmark="b", harness="h", model=name)).tree["model"] == model


def test_02_what_is_declared_lies_over_the_defaults_of_the_project(folder: Path) -> None:
    own = layer(Level.DECLARED, model={"id": "gpt", "params": {"temperature": 1, "top_p": 0.5}}, benchmark="trivial")
    found = fields(folder, own, layer(Level.FLAG, environment={"provider": "local", "env": {"B": "three"}}))
    assert found.tree["model"]["params"] == {"temperature": 1, "top_p": 0.5}
    assert found.tree["model"]["id"] == "openai/gpt-x"
    assert found.tree["environment"]["env"] == {"A": "one", "B": "three"}


@pytest.mark.parametrize("level", [Level.DECLARED, Level.SET, Level.FLAG])
def test_02_another_model_replaces_the_weaker_one_whole(folder: Path, level: Level) -> None:
    weak = layer(
        Level.DEFAULTS, model={"id": "secret-model", "base_url": "http://x", "api_key": "k", "params": {"a": 1}}
    )
    assert fields(folder, weak, layer(level, model="other")).tree["model"] == {"id": "other", "base_url": "http://b/v1"}
    same = fields(folder, weak, layer(level, model={"id": "secret-model", "params": {"b": 2}})).tree["model"]
    assert same == {"id": "secret-model", "base_url": "http://x", "api_key": "k", "params": {"a": 1, "b": 2}}


@pytest.mark.parametrize("part", ["benchmark", "harness"])
def test_02_another_benchmark_or_harness_leaves_no_parameters_behind(folder: Path, part: str) -> None:
    weak = layer(Level.DEFAULTS, **{part: {"id": "a", "params": {"x": 1}}})
    middle = layer(Level.DECLARED, **{part: {"params": {"y": 2}}})
    assert fields(folder, weak, middle).tree[part] == {"id": "a", "params": {"x": 1, "y": 2}}
    assert fields(folder, weak, middle, layer(Level.FLAG, **{part: "b"})).tree[part] == {"id": "b"}


def test_02_parameters_without_a_name_belong_to_whatever_is_named(folder: Path) -> None:
    found = fields(folder, layer(Level.DEFAULTS, model={"params": {"top_p": 1}}), layer(Level.DECLARED, model="gpt"))
    assert found.tree["model"]["params"] == {"temperature": "0", "top_p": 1}


def test_02_another_provider_keeps_what_the_experiment_says_of_its_sandboxes(folder: Path) -> None:
    own = layer(Level.DECLARED, environment={"provider": "docker", "env": {"C": "x"}})
    found = fields(folder, own, layer(Level.FLAG, environment="local"))
    assert found.tree["environment"] == {"provider": "local", "env": {"A": "one", "B": "two", "C": "x"}}


def test_02_defaults_of_the_project_hold_for_the_provider_that_nobody_names(folder: Path) -> None:
    assert fields(folder, layer(Level.DECLARED, benchmark="b")).tree["environment"] == {"env": {"A": "one", "B": "two"}}


def test_156_a_plugin_gets_plain_text_also_where_it_takes_anything(folder: Path) -> None:
    tree = {"harness": {"id": "config_plugins:Anything", "params": {"free": {"a": ["${V}"]}, "text": "${V}"}}}
    write(folder, x=f"harnesses: {{'config_plugins:Anything': {{params: {tree['harness']['params']}}}}}")
    given = layer(
        Level.DECLARED, benchmark="trivial", harness="config_plugins:Anything", flags={"f": Substituted("w", ("w",))}
    )
    resolved = resolve(declare(project_in(folder, "x.yaml", V="held in V"), "e", [given]))
    options: Any = resolved.harness
    assert options.settings.free == {"a": ["held in V"]}
    assert type(options.settings.free["a"][0]) is str
    assert type(resolved.experiment.flags["f"]) is str
    assert "held in V" in resolved.secrets
