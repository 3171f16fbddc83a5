"""Experiments of a project: how they are found, what they are called, and what is said of those that are wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from proctor.authoring.experiments import FIELDS, OWN_FIELDS
from proctor.config.discover import Discovered, discover
from proctor.config.in_python import InPython, in_python, matching
from proctor.config.schema import ExperimentConfig
from proctor.errors import NothingToRun, UsageError
from proctor.model.spec import Component, Task

GRADER = Component("text")


@pytest.fixture(autouse=True)
def _own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return tmp_path


def write(project: Path, name: str, text: str) -> None:
    path = project / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("from proctor import Experiment, hook\n" + text, encoding="utf-8")


def ids(found: Discovered) -> list[str]:
    assert [error.message for error in found.errors] == []
    return [one.id for one in found.found]


def errors(project: Path) -> list[str]:
    return [error.message for error in discover(project).errors]


def said(project: Path, text: str) -> InPython:
    write(project, "experiments/x.py", text)
    found = discover(project)
    assert [error.message for error in found.errors] == []
    return in_python(found.found[0].experiment, project)


def refused(project: Path, text: str) -> UsageError:
    write(project, "experiments/x.py", text)
    [found] = discover(project).found
    with pytest.raises(UsageError) as caught:
        in_python(found.experiment, project)
    return caught.value


def tasks(*names: str) -> list[Task]:
    return [Task(name, GRADER, tags=("smoke",) if name.endswith("1") else ()) for name in names]


# -------------------------------------------------------------------------------------------------------------- ids


def test_the_id_of_an_experiment_is_the_path_of_its_file(project: Path) -> None:
    write(project, "experiments/b.py", "experiment = Experiment(harness='chat')")
    write(project, "experiments/a/deep.py", "experiment = Experiment(harness='chat')")
    write(project, "experiments/_shared.py", "raise SystemExit")
    assert ids(discover(project)) == ["a/deep", "b"]


def test_a_project_without_experiments_has_none(project: Path) -> None:
    assert ids(discover(project)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[Experiment(name='a', model='m'), Experiment(name='b', model='m')]", ["x/a", "x/b"]),
        ("[Experiment(model=m, harness='chat') for m in ('gpt-x', 'lab/gpt-y')]", ["x/gpt-x", "x/lab-gpt-y"]),
        ("[Experiment(model='m', attempts=n) for n in (1, 5)]", ["x/attempts=1", "x/attempts=5"]),
        ("[Experiment(model=m, early_exit=e) for m in 'ab' for e in (True, False)]",
         ["x/a-early_exit=true", "x/a-early_exit=false", "x/b-early_exit=true", "x/b-early_exit=false"]),
        ("[Experiment(model={'id': 'm', 'params': {'temperature': t}}) for t in (0, 0.5)]",
         ["x/temperature=0", "x/temperature=0.5"]),
        ("[Experiment(model='m', environment=e) for e in ('local', {'provider': 'docker'})]", ["x/local", "x/docker"]),
        ("(Experiment(name='a', model='m'), Experiment(model='k'), Experiment(model='l'))", ["x/a", "x/k", "x/l"]),
        ("[Experiment(harness='chat')]", ["x"]),
    ],
)  # fmt: skip
def test_ids_of_a_list_say_what_distinguishes_its_experiments(project: Path, text: str, expected: list[str]) -> None:
    write(project, "experiments/x.py", f"experiments = {text}")
    assert ids(discover(project)) == expected


def test_a_credential_is_no_part_of_an_id(project: Path) -> None:
    text = "[Experiment(model={'id': m, 'api_key': 'sk-' + m}) for m in 'ab']"
    write(project, "experiments/x.py", f"experiments = {text}")
    assert ids(discover(project)) == ["x/a", "x/b"]


def test_ids_that_meet_are_an_error_that_names_both_places(project: Path) -> None:
    write(project, "experiments/x/a.py", "experiment = Experiment(harness='chat')")
    write(project, "experiments/x.py", "experiments = [\n  Experiment(name='a'),\n  Experiment(name='a'),\n]")
    assert errors(project) == [
        "experiments/x.py:3: the experiment has the id `x/a`, as that of experiments/x/a.py:2 has",
        "experiments/x.py:4: the experiment has the id `x/a`, as that of experiments/x/a.py:2 has",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "experiments/x.py: there is no experiment in it"),
        ("experiment = 5", "experiments/x.py: `experiment` is no Experiment but int"),
        ("experiments = Experiment()", "experiments/x.py: `experiments` is no list but Experiment"),
        ("experiment = []", "experiments/x.py: `experiment` is empty"),
        ("experiments = []", "experiments/x.py: `experiments` is empty"),
        ("experiments = [3]", "experiments/x.py: item 1 of `experiments` is no Experiment but int"),
        ("experiment = Experiment()\nexperiments = []", "experiments/x.py: both `experiment` and `experiments` are"),
        ("experiment = Experiment(\n  name='a')", "experiments/x.py:3: `name` is for experiments of a list: this one"),
        ("experiments = [Experiment(name=' a')]", "experiments/x.py:2: `name` must be a text without white space"),
        ("experiments = [Experiment(harness='nop'), Experiment(harness='nop')]",
         "experiments/x.py:2: nothing distinguishes it from the others of its list"),
        ("experiment = Experiment(\n  harness='nop',\n  atempts=2,\n)",
         "experiments/x.py:4: unknown field `atempts` of Experiment; did you mean `attempts`?"),
        ("experiment = Experiment('nop')", "experiments/x.py:2: cannot be imported: TypeError: "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_its_place(project: Path, text: str, message: str) -> None:
    write(project, "experiments/a.py", "experiment = Experiment(harness='nop')")
    write(project, "experiments/x.py", text)
    found = discover(project)
    assert [error.message.startswith(message) for error in found.errors] == [True], found.errors
    assert [one.id for one in found.found] == ["a"]


# ------------------------------------------------------------------------------------------------------------ fields


def test_fields_are_those_of_configuration_files() -> None:
    """A field that is added to the schema has to be added to `Experiment` as well."""
    assert set(FIELDS) - set(OWN_FIELDS) == set(ExperimentConfig.model_fields)


def test_every_value_knows_its_line(project: Path) -> None:
    layer = said(
        project,
        "common = {'attempts': 3}\n"
        "experiment = Experiment(\n"
        "    harness={\n"
        "        'id': 'chat',\n"
        "        'params': {'system': 'Be brief.'},\n"
        "    },\n"
        "    retry_pattern_list=[\n"
        "        'a',\n"
        "        'b',\n"
        "    ],\n"
        "    **common,\n"
        ")\n",
    ).layer
    lines = {path: str(layer.source_of(path)) for path in [
        ("harness",), ("harness", "params", "system"), ("retry_pattern_list", 1), ("attempts",), ("benchmark", "id"),
    ]}  # fmt: skip
    assert lines == {
        ("harness",): "experiments/x.py:4",
        ("harness", "params", "system"): "experiments/x.py:6",
        ("retry_pattern_list", 1): "experiments/x.py:10",
        ("attempts",): "experiments/x.py:3",
        ("benchmark", "id"): "experiments/x.py:3",
    }


def test_values_are_those_that_a_file_would_hold(project: Path) -> None:
    tree = said(
        project,
        "from pathlib import Path\nfrom types import MappingProxyType\n"
        "experiment = Experiment(harness={'id': 'chat', 'params': MappingProxyType({'a': (1, 2), 'p': Path('x/y')})},"
        " tasks=['a'], tags=['t'], labels={'who': 'me'}, agent_timeout_seconds=None)",
    ).layer.tree
    assert tree == {
        "benchmark": "evals",
        "harness": {"id": "chat", "params": {"a": [1, 2], "p": "x/y"}},
        "agent_timeout_seconds": None,
        "tags": ["t"],
        "labels": {"who": "me"},
    }


def test_tags_and_labels(project: Path) -> None:
    one = said(project, "experiment = Experiment(harness='nop', tags=['a', 'b'], labels={'who': 'me'})")
    assert (one.layer.tree["tags"], one.layer.tree["labels"]) == (["a", "b"], {"who": "me"})


def test_parameters_of_the_own_tasks_need_no_id(project: Path) -> None:
    one = said(project, "experiment = Experiment(harness='nop', benchmark={'params': {'a': 1}})")
    assert one.layer.tree["benchmark"] == {"id": "evals", "params": {"a": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tags='smoke'", "experiments/x.py:3: `tags` must be a list of texts, not str"),
        ("tags=['a', 3]", "experiments/x.py:3: `tags`: must be a text, not 3"),
        ("labels=['a']", "experiments/x.py:3: `labels` must be texts by name, not list"),
        ("labels={'a': 3}", "experiments/x.py:3: `labels`: 'a' must be a text with a text as its value"),
        ("tasks=[]", "experiments/x.py:3: `tasks` is empty: no task was named"),
        ("tasks=7", "experiments/x.py:3: `tasks` must be a list of texts, not int"),
        ("flags={'a': [1, object()]}", "experiments/x.py:3: `flags.a.1` is of type object, which no file could hold"),
        ("flags={'a': {1: 2}}", "experiments/x.py:3: `flags.a`: the name 1 must be a text"),
        ("flags={'a': float('nan')}", "experiments/x.py:3: `flags.a` is not a finite number"),
        ("setup=lambda: 1", "experiments/x.py:3: setup: a lambda cannot be found again by a path"),
        ("setup=print", "experiments/x.py:3: setup: `print` is defined in no file of a project"),
        ("setup=closure()", "experiments/x.py:3: setup: `closure.<locals>.inner` is defined inside a function"),
        ("setup=first", "experiments/x.py:3: setup: `twice` of `experiments/x.py` is not this function any more"),
        ("setup=partial(twice)", "experiments/x.py:3: setup: functools.partial("),
        ("setup=Class().method", "experiments/x.py:3: setup: "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_field_is_said_with_its_line(project: Path, text: str, message: str) -> None:
    around = (
        "experiment = make()\n"
        "from functools import partial\n"
        "def closure():\n    def inner(): ...\n    return inner\n"
        "def twice(): ...\n"
        "first = twice\n"
        "def twice(): ...\n"
        "class Class:\n    def method(self): ...\n"
        "experiment = make()\n"
    )
    text = f"def make(): return Experiment(harness='nop',\n  {text})\n" + around.partition("\n")[2]
    error = refused(project, text)
    assert error.message.startswith(message), error.message


def test_a_reference_of_yaml_is_never_taken_for_a_credential(project: Path) -> None:
    error = refused(project, 'experiment = Experiment(model={"id": "a/b",\n  "api_key": "${LAB_KEY}"})\n')
    assert error.message == (
        "experiments/x.py:3: `model.api_key` is `${LAB_KEY}`, which stands for a variable in YAML only"
    )
    assert 'os.environ["LAB_KEY"]' in str(error.hint)
    text = said(project, 'experiment = Experiment(harness={"id": "chat", "params": {"system": "${NAME}"}})\n')
    assert text.layer.tree["harness"]["params"]["system"] == "${NAME}"


def test_everything_that_is_wrong_is_said_at_once(project: Path) -> None:
    error = refused(project, "experiment = Experiment(harness='nop', tags=3, labels=3, setup=lambda: 1, flags={1: 1})")
    assert all(word in error.message for word in ("`tags`", "`labels`", "setup: a lambda", "`flags`"))


# ------------------------------------------------------------------------------------------------------------- hooks


def test_hooks_are_named_by_their_files(project: Path) -> None:
    (project / "fixtures_of_discover.py").write_text("class Db:\n    @staticmethod\n    def start(): ...\n")
    one = said(
        project,
        "import json\nfrom fixtures_of_discover import Db\n"
        "@hook(identity='v2')\ndef prepare(): ...\n"
        "experiment = Experiment(harness='nop', setup=prepare, teardown=Db.start, sandbox_setup='my.module:warm',"
        " sandbox_teardown=json.dumps)",
    )
    assert {name: one.layer.tree[name] for name in ("setup", "teardown", "sandbox_setup", "sandbox_teardown")} == {
        "setup": "experiments/x.py:prepare",
        "teardown": "fixtures_of_discover.py:Db.start",
        "sandbox_setup": "my.module:warm",
        "sandbox_teardown": "json:dumps",
    }
    assert {path: function.__qualname__ for path, function in one.hooks.items()} == {
        "experiments/x.py:prepare": "prepare", "fixtures_of_discover.py:Db.start": "Db.start", "json:dumps": "dumps",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- tasks


def chosen(project: Path, wanted: str, *names: str) -> list[str]:
    choose = said(project, f"experiment = Experiment(harness='nop', tasks={wanted})").choose
    assert choose is not None
    return [task.id for task in choose(tasks(*names))]


def test_an_experiment_that_names_no_tasks_has_all(project: Path) -> None:
    assert said(project, "experiment = Experiment(harness='nop')").choose is None


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("['b/2', 'a/1']", ["a/1", "b/2"]),
        ("['a/']", ["a/1", "a/10", "a/2"]),
        ("['a/1']", ["a/1"]),
        ("['a/1', 'a']", ["a/1", "a/10", "a/2"]),
        ("'b'", ["b/2"]),
        ("lambda task: 'smoke' in task.tags", ["a/1"]),
    ],
)
def test_tasks_are_named_by_id_or_beginning_or_chosen_by_a_predicate(
    project: Path, wanted: str, expected: list[str]
) -> None:
    """A whole id means that task alone, whatever else begins with it; the order is that of the benchmark."""
    assert chosen(project, wanted, "a/1", "a/10", "a/2", "b/2") == expected


def test_a_name_that_matches_nothing_is_an_error_with_the_nearest(project: Path) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(project, "['a/1', 'naps/napp']", "a/1", "naps/nap")
    assert caught.value.message == (
        "experiments/x.py:2: `tasks`: no task is called or begins with `naps/napp`; did you mean `naps/nap`?"
    )


def test_a_predicate_that_nothing_fits_leaves_nothing_to_run(project: Path) -> None:
    with pytest.raises(NothingToRun, match=r"experiments/x\.py:2: no task fits the predicate"):
        chosen(project, "lambda task: False", "a")


def test_a_predicate_that_raises_is_an_error_of_the_experiment(project: Path) -> None:
    with pytest.raises(UsageError, match=r"experiments/x\.py:2: `tasks`: the predicate fails: AttributeError"):
        chosen(project, "lambda task: task.nothing", "a")


def test_matching_nothing_is_empty() -> None:
    assert matching(tasks("a"), ["b"]) == []


def test_02_a_list_may_be_called_experiment_as_well(project: Path) -> None:
    write(project, "experiments/x.py", "experiment = [Experiment(name='a'), Experiment(name='b')]")
    assert ids(discover(project)) == ["x/a", "x/b"]
