"""What code a task consists of, for its identity (spec 04 P3): part by part, so that a plan can say what changed."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from proctor.authoring.forgotten_calls import forgotten_call
from proctor.authoring.own_code import Statements, own_code
from proctor.authoring.places import is_own_file
from proctor.authoring.project_modules import Imports, ProjectModules, Source, mentioned_in, versions_of
from proctor.authoring.source_text import digest_of_text
from proctor.authoring.tasks import NO_ROW, PythonTask
from proctor.authoring.value_digests import ValueDigest, contents
from proctor.errors import UsageError

IDENTITY = "identity"
VALUES = "values"
"""The part for what a function has from elsewhere: its row, defaults of arguments, what its closure holds."""
ROW = "row"
ELSEWHERE = "function"
"""The part of a function that is in no file of the project."""

UNKNOWN = "unknown"
"""In place of the version of a package that says none."""


@dataclass(frozen=True, slots=True)
class TaskCode:
    """The parts by name, each with a digest or a version, and what is mentioned in the code."""

    parts: Mapping[str, str]
    mentioned: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Own:
    """What the file of a function adds: the part of its source, what that imports, and what is mentioned in it."""

    part: Mapping[str, str]
    imports: Imports
    mentioned: frozenset[str] = frozenset()


_OwnKey = tuple[Path, CodeType, int, tuple[int, ...]]
"""The file comes first: code objects of two files are equal where the same function is on the same line of both."""


@dataclass
class TaskCodes:
    """Reads the code of the tasks of one project; each file is read once in the life of this object."""

    project: Path
    _statements: dict[Path, Statements] = field(default_factory=dict[Path, Statements])
    _own: dict[_OwnKey, _Own] = field(default_factory=dict[_OwnKey, _Own])
    _names: dict[Path, str] = field(default_factory=dict[Path, str])

    def __post_init__(self) -> None:
        self._modules = ProjectModules(self.project)

    @property
    def files(self) -> frozenset[Path]:
        """Every file that was read."""
        return self._modules.files

    def of(self, task: PythonTask) -> TaskCode:
        """Return the code of a task; `identity` stands for it where the task has one, its row counts all the same.

        Raises `UsageError` for a call in it that does nothing, since its `await` was forgotten.
        """
        function = inspect.unwrap(task.function)
        objects: list[Any] = []
        values = ValueDigest(self.project, objects.append)
        row = {} if task.row is NO_ROW else {ROW: values.of(task.row)}
        parts = dict(row)
        held = [function.__defaults__, function.__kwdefaults__, contents(function.__closure__)]
        if any(held):
            parts[VALUES] = values.of(held)
        path = self._own_file(function)
        own = self._of_function(function, path, task, objects)
        parts |= own.part
        elsewhere = Imports()
        for one in objects:
            elsewhere |= self._home_of(one)
        start = own.imports | elsewhere
        followed = self._modules.followed(Imports(start.files - {path}, start.packages))
        mentioned = set(own.mentioned)
        for file in followed.files:  # what it imports may use its own file, nobody knows how much of that
            found = self._modules.source(file)
            parts[self._name(file)] = found.digest
            mentioned |= found.mentioned
        for package in followed.packages:
            parts |= dict(versions_of(package)) or {package: UNKNOWN}
        identity = task.options.get("identity")
        return TaskCode(parts if identity is None else {IDENTITY: identity} | row, frozenset(mentioned))

    def _of_function(self, function: FunctionType, path: Path | None, task: PythonTask, objects: list[Any]) -> _Own:
        source = None if path is None else self._readable(path)
        if path is None or source is None or source.tree is None:
            name = f"{function.__module__}.{function.__qualname__} {_digest_of_code(function.__code__)}"
            return _Own({ELSEWHERE: name}, self._home_of(function))
        here = [_line_of(one) for one in objects if self._own_file(one) == path]
        lines = tuple(line for line in here if line is not None)
        made_at = task.place.line if task.place.file == str(path) else 0
        key = (path, function.__code__, made_at, lines)  # the tasks of a data set share it
        found = self._own.get(key)
        if found is None:
            statements = self._statements.get(path)
            if statements is None:
                statements = self._statements[path] = Statements(source.tree)
            node = statements.functions.get((function.__name__, function.__code__.co_firstlineno))
            code = own_code(source.text, statements, node, [made_at], lines)
            forgotten = None if node is None else forgotten_call(function, node, code.nodes)
            if forgotten is not None:
                called, line = forgotten
                raise UsageError(
                    f"{self._name(path)}:{line}: `{called}(...)` is not awaited, so that it does nothing",
                    hint=f"write `await {called}(...)`",
                )
            found = self._own[key] = _Own(
                {self._name(path): digest_of_text(code.text)},
                self._modules.imports_in(code.nodes, path),
                frozenset(mentioned_in(code.nodes)),
            )
        return found

    def _own_file(self, value: Any) -> Path | None:
        """Return the file of the project in which a function, class or module is, if it is in one."""
        if isinstance(value, ModuleType):
            file = value.__file__
        elif isinstance(value, FunctionType):
            file = value.__code__.co_filename
        else:
            file = getattr(sys.modules.get(getattr(value, "__module__", None) or ""), "__file__", None)
        if file is None or not is_own_file(file, self.project):
            return None
        return Path(file)

    def _readable(self, path: Path) -> Source | None:
        try:
            source = self._modules.source(path)
        except OSError:
            return None
        return None if source.tree is None else source

    def _home_of(self, value: Any) -> Imports:
        """Return where a function, class or module comes from, as if it was imported."""
        file = self._own_file(value)
        if file is not None:
            return Imports(frozenset({file})) if self._readable(file) else Imports()
        name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        top = name.partition(".")[0] if isinstance(name, str) else ""
        if not top or top in sys.stdlib_module_names or top in ("proctor", "__main__") or top.startswith("proctor_"):
            return Imports()
        return Imports(packages=frozenset({top}))

    def _name(self, path: Path) -> str:
        name = self._names.get(path)
        if name is None:
            name = self._names[path] = path.relative_to(self.project).as_posix()
        return name


def _line_of(value: Any) -> int | None:
    """Return the first line of a function or class."""
    if isinstance(value, FunctionType):
        return value.__code__.co_firstlineno
    try:
        return inspect.getsourcelines(value)[1]
    except (OSError, TypeError):
        return None


def _digest_of_code(code: CodeType) -> str:
    """Return a digest of code whose source is not there."""
    texts = [code.co_code.hex(), repr(code.co_names)]
    texts += [_digest_of_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return digest_of_text("\n".join(texts))


__all__ = ["TaskCode", "TaskCodes"]
