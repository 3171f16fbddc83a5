"""Launch files: several experiments for one invocation (spec 02 Launch file).

What stands at the top of the file is for all of them: `task_concurrency`, `execution`, `runtime`. `defaults` lie
beneath each request; a `matrix`, or each of a list of them, expands to requests. Keys that begin with `x-` are notes.

Here the file is checked by itself; that its experiments can be made is found out when they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from pydantic import BaseModel

from proctor.config.declare import with_names
from proctor.config.launch_parts import (
    HINT,
    OF_REQUEST,
    TOP,
    kind_of,
    lifted,
    name_fault,
    only_fields,
    reuse_said,
    runtime_fault,
    switch_said,
    top_fault,
    without_notes,
)
from proctor.config.layers import FieldPath, Layer, Level, Parts, Source, Tree
from proctor.config.load import check
from proctor.config.matrix import expand
from proctor.config.problems import Problem, line_of
from proctor.config.scalars import Refused, holds_variable
from proctor.config.schema import OF_EXECUTION, SECTIONS, ExecutionConfig, ExperimentConfig, RuntimeConfig


@dataclass(frozen=True, slots=True)
class Request:
    """One request of a launch file, with what lies beneath it; layers are weakest first."""

    name: str
    source: Source
    fields: tuple[Layer, ...]
    execution: tuple[Layer, ...]
    reuse: bool | str | None = None
    checkpoint_resume: bool | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch file: what it says of the whole invocation, its requests in their order, and what is wrong with it."""

    execution: Layer
    runtime: Layer
    requests: tuple[Request, ...]
    """Those with which nothing is wrong."""
    problems: tuple[Problem, ...]
    """In the order of the file."""


def read_launch(file: Layer) -> Launch:
    """Return what a launch file says; `file` is all of it."""
    return _Reading(file).launch()


class _Reading:
    """Goes through a launch file and keeps what is wrong with it."""

    def __init__(self, file: Layer) -> None:
        self.file = without_notes(file)
        self.parts = Parts(self.file)
        self.problems: list[Problem] = []
        self.named: dict[str, FieldPath] = {}

    def launch(self) -> Launch:
        self._unknown_at_top()
        execution, runtime = self._execution(), self._section("runtime", RuntimeConfig)
        defaults = self._mapping("defaults")
        if "name" in defaults:
            self._say(("defaults", "name"), "a name belongs in a request: no two are called the same")
        sound = not defaults or self._checked(("defaults",), self.parts.at(("defaults",), Level.DEFAULTS))
        requests = [*self._requests(), *self._of_matrices(defaults)]
        if not self.problems and not requests:
            self._say((), "it has no `requests` and no `matrix`: there is nothing to launch")
        problems = sorted(self.problems, key=line_of)
        return Launch(execution, runtime, tuple(requests) if sound else (), tuple(problems))

    # ------------------------------------------------------------------------------------------- the whole invocation

    def _unknown_at_top(self) -> None:
        for key in self.file.tree:
            if (fault := top_fault(str(key))) is not None:
                self._say((key,), fault, hint=f"fields there: {', '.join(TOP)}")

    def _execution(self) -> Layer:
        """Return `execution` of the whole invocation, with `task_concurrency`, which may stand above it."""
        section = self._section("execution", ExecutionConfig)
        if "task_concurrency" not in self.file.tree:
            return section
        where = self.file.source_of(("task_concurrency",))
        if "task_concurrency" in section.tree:
            self._say(("execution", "task_concurrency"), f"`task_concurrency` is there twice, first at {where}")
        own = {"task_concurrency": self.file.tree["task_concurrency"]}
        self.problems += check(ExecutionConfig, own, lambda _: where)
        lines = {**section.lines, **({("task_concurrency",): where.line} if where.line is not None else {})}
        return Layer(section.source, {**section.tree, **own}, lines)

    def _section(self, name: str, schema: type[BaseModel]) -> Layer:
        """Return a section of the whole invocation."""
        self._mapping(name)
        layer = self.file.below(name)
        self._check(schema, layer, (name,))
        return layer

    # -------------------------------------------------------------------------------------------------- the requests

    def _requests(self) -> Iterator[Request]:
        given: Any = self.file.tree.get("requests")
        if given is None:
            return
        if not isinstance(given, list) or not given:
            what = "must be a list of requests" if not isinstance(given, list) else "is empty"
            self._say(("requests",), f"`requests` {what}: each is a mapping with a name")
            return
        for place, one in enumerate(cast("list[Any]", given)):
            path: FieldPath = ("requests", place)
            if not isinstance(one, Mapping) or not one:
                self._say(path, "a request is a mapping of fields, `name` among them, not " + kind_of(one))
                continue
            layer = self.parts.at(path, Level.DECLARED)
            sound = self._checked(path, layer)
            if "name" not in layer.tree:
                self._say(path, "a request needs a `name`: it names the directory of its runs")
            elif self._usable((*path, "name"), layer.tree["name"]) and sound:
                yield self._request(str(layer.tree["name"]), path, layer)

    def _of_matrices(self, defaults: Mapping[str, Any]) -> Iterator[Request]:
        given: Any = self.file.tree.get("matrix")
        if given is None:
            return
        several = isinstance(given, list)
        matrices = cast("list[Any]", given) if several else [given]
        if not matrices:
            self._say(("matrix",), "`matrix` is empty")
        for place, one in enumerate(matrices):
            path: FieldPath = ("matrix", place) if several else ("matrix",)
            if not isinstance(one, Mapping) or not one:
                self._say(path, "a matrix is a mapping of fields, of which each list is an axis, not " + kind_of(one))
                continue
            layer = self.parts.at(path, Level.DECLARED)
            combinations, wrong = expand(layer, {key: value for key, value in defaults.items() if key != "name"})
            for where, text in wrong:
                self._say((*path, *where), f"matrix: {text}")
            for each in combinations:
                sound = self._checked(path, each.layer)
                if not wrong and self._usable((*path, "name"), each.name) and sound:
                    yield self._request(each.name, path, each.layer)

    def _request(self, name: str, path: FieldPath, layer: Layer) -> Request:
        """Return a request with the defaults beneath it."""
        beneath = [self.parts.at(("defaults",), Level.DEFAULTS)] if self._mapping("defaults", quiet=True) else []
        layers = [lifted(each) for each in (*beneath, layer)]
        said = {key: value for each in layers for key, value in each.below("runtime").tree.items()}
        return Request(
            name,
            replace(self.file.source_of(path), level=Level.DECLARED),
            fields=tuple(only_fields(each) for each in layers),
            execution=tuple(each.below("execution") for each in layers if each.below("execution").tree),
            reuse=reuse_said(said.get("reuse")),
            checkpoint_resume=switch_said(said.get("checkpoint_resume")),
        )

    # ------------------------------------------------------------------------------------------------------- checking

    def _checked(self, path: FieldPath, layer: Layer) -> bool:
        """Check the fields of a request, or of the defaults; say whether nothing is wrong with them."""
        before = len(self.problems)
        fields = only_fields(layer)
        own = {key: value for key, value in fields.tree.items() if key != "task_concurrency"}
        self._check(ExperimentConfig, with_names(replace(fields, tree=own)), path, RuntimeConfig)
        self._no_concurrency(path, layer, fields)
        for section in OF_REQUEST:
            inner: Any = layer.tree.get(section)
            if inner is not None and not isinstance(inner, Mapping):
                self._say((*path, section), f"`{section}` must be a mapping, not {kind_of(inner)}", layer, (section,))
        execution = layer.below("execution")
        for key in (key for key in OF_EXECUTION if key in execution.tree and key in layer.tree):
            text = f"`{key}` is there twice, also at {layer.source_of((key,))}"
            self._say((*path, "execution", key), text, layer, ("execution", key))
        self._no_concurrency((*path, "execution"), layer, execution, ("execution",))
        kept = {key: value for key, value in execution.tree.items() if key != "task_concurrency"}
        self._check(ExecutionConfig, replace(execution, tree=kept), (*path, "execution"))
        self._runtime(path, layer)
        return len(self.problems) == before

    def _no_concurrency(self, path: FieldPath, layer: Layer, tree: Layer, below: FieldPath = ()) -> None:
        if "task_concurrency" in tree.tree:
            text = "`task_concurrency` is global: write it at the top of the file, not in "
            text += "the defaults" if path[0] == "defaults" else f"a {'matrix' if path[0] == 'matrix' else 'request'}"
            hint = "an experiment's own cap is `max_concurrency`"
            self._say((*path, "task_concurrency"), text, layer, (*below, "task_concurrency"), hint=hint)

    def _runtime(self, path: FieldPath, layer: Layer) -> None:
        """Check what a request says of how it runs: only that may stand there which need not be the same for all."""
        for key, value in layer.below("runtime").tree.items():
            fault = runtime_fault(str(key), value)
            if fault is not None and not isinstance(value, Refused):
                self._say((*path, "runtime", key), fault, layer, ("runtime", key))

    def _check(self, schema: type[BaseModel], layer: Layer, path: FieldPath, *elsewhere: type[BaseModel]) -> None:
        """Check values that need not be all there are."""
        places = {name: one for name, one in SECTIONS.items() if one in elsewhere}
        within = () if layer.lines else path
        self.problems += check(schema, layer.tree, layer.source_of, places=places, within=within)

    def _usable(self, path: FieldPath, name: object) -> bool:
        """Say whether a name can be that of a request, and has not been given before."""
        fault = name_fault(name)
        if fault is not None:
            if not isinstance(name, Refused):
                self._say(path, f"the name{'' if holds_variable(name) else f' {name!r:.80}'} {fault}")
            return False
        other = self.named.setdefault(str(name), path)
        if other is not path:
            self._say(path, f"the name `{name}` is taken: {self.file.source_of(other)} has it")
        return other is path

    def _mapping(self, key: str, *, quiet: bool = False) -> Mapping[str, Any]:
        value: Any = self.file.tree.get(key)
        if isinstance(value, Mapping):
            return cast("Tree", value)
        if value is not None and not quiet:
            self._say((key,), f"`{key}` must be a mapping, not {kind_of(value)}")
        return {}

    def _say(
        self, path: FieldPath, text: str, layer: Layer | None = None, within: FieldPath = (), *, hint: str | None = None
    ) -> None:
        """Keep something that is wrong at a path of the file, or with `layer` at one within that."""
        source = self.file.source_of(path) if layer is None else layer.source_of(within)
        where = ".".join(map(str, path))
        message = text if source.line is not None or not where else f"{where}: {text}"
        self.problems.append(Problem(message, hint or HINT, source))
