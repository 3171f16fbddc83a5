"""A project's own Python files, imported by their paths: each once, in a fixed order, and what breaks is named by line.

Files and folders whose names begin with `_` or `.` are no tasks and no experiments: they can be imported by those, as
`from ._shared import ...`, or from the directory of the project, as `from evals._shared import ...`.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import module_from_spec
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, cast

from proctor.authoring.one_module import PREFIX, module_there, note_project
from proctor.authoring.places import is_own_file
from proctor.errors import ProctorError, UsageError, describe

if TYPE_CHECKING:
    from importlib.abc import Loader


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file of a project that was imported."""

    path: Path
    name: str
    """Its path from the directory of the project, as people name it: `evals/sub/naps.py`."""
    module: ModuleType

    def id_below(self, folder: str) -> str:
        """Return its path below a folder of the project, without its ending: `sub/naps`."""
        return self.name.removeprefix(f"{folder}/").removesuffix(".py")


class _Source(SourceFileLoader):
    """Reads the source every time: cached code is looked up by the second, and a file may change twice in one."""

    def get_code(self, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


_imported: dict[Path, tuple[tuple[int, int], ModuleType]] = {}
"""What was imported, by path, with the time of change and the size that the file had."""

_projects: set[Path] = set()
"""The directories of the projects that files were imported from."""


def files_below(project: Path, folder: str) -> list[Path]:
    """Return the Python files of a folder of a project, in the order of their paths; none where it is not there."""
    root = project / folder
    found = [path for path in root.rglob("*.py") if path.is_file() and not _is_private(path.relative_to(root))]
    return sorted(found, key=lambda path: path.relative_to(root).parts)


def _is_private(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def import_below(
    project: Path, folder: str, wanted: Callable[[str], bool] | None = None
) -> tuple[list[ProjectFile], list[UsageError]]:
    """Import the files of a folder of a project; return those that could be, and what is wrong with the others.

    `wanted` says of a file, by its path below the folder without the ending, whether it is to be imported.
    """
    files: list[ProjectFile] = []
    errors: list[UsageError] = []
    for path in files_below(project, folder):
        if wanted is not None and not wanted(path.relative_to(project / folder).with_suffix("").as_posix()):
            continue
        try:
            files.append(import_file(path, project))
        except UsageError as error:
            errors.append(error)
    return files, errors


def import_file(path: Path, project: Path) -> ProjectFile:
    """Import one file of a project, or return what it was imported as before, if it has not changed since.

    The directory of the project is importable from then on. What the file prints goes to standard error. Raises
    `UsageError`, which names file and line.
    """
    path, project = path.resolve(), project.resolve()
    _projects.add(project)
    name = place_of(path, project)
    try:
        state = path.stat()
    except OSError as error:
        raise UsageError(f"{name}: cannot be read: {error.strerror}", hint="name a file that is there") from None
    version = (state.st_mtime_ns, state.st_size)
    known = _imported.get(path)
    if known is not None and known[0] == version:
        return ProjectFile(path, name, known[1])
    module = _import(path, project, name)
    _imported[path] = (version, module)
    return ProjectFile(path, name, module)


def make_importable(directory: Path, *, first: bool = True) -> None:
    """Let modules in a directory be imported by their names, `first` before those of that name elsewhere."""
    if str(directory) not in sys.path:
        sys.path.insert(0 if first else len(sys.path), str(directory))


def known_projects() -> frozenset[Path]:
    """Return the directories of all projects that files were imported from."""
    return frozenset(_projects)


def forget(project: Path) -> None:
    """Import the files of a project anew when they are asked for next."""
    for path in [path for path in _imported if path.is_relative_to(project)]:
        del _imported[path]


def place_of(path: Path | str, project: Path) -> str:
    """Return how people name a file: from the directory of the project where it is in it."""
    path = Path(path)
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else str(path)


def shown(path: Path) -> str:
    """Return how people name a file: from the directory of the project that it is in, if any was imported from."""
    above = [project for project in _projects if path.is_relative_to(project)]
    return place_of(path, max(above, key=lambda project: len(project.parts)) if above else Path.cwd())


def _import(path: Path, project: Path, name: str) -> ModuleType:
    make_importable(project)
    try:
        # Standard output is for results, and the directory belongs to whoever called proctor.
        with contextlib.redirect_stdout(sys.stderr), contextlib.chdir("."):
            own = _module_name(path, project)
            there = None if path in _imported else module_there(own, path)
            return there or _execute(own, path)
    except ProctorError:
        raise
    except (Exception, SystemExit) as error:
        raise _import_error(error, path, project, name) from error


def _execute(module_name: str, path: Path, package: Path | None = None) -> ModuleType:
    """Execute a file as a module, that of a package where it is one; whatever it raises leaves no module behind."""
    spec = ModuleSpec(module_name, _Source(module_name, str(path)), origin=str(path), is_package=package is not None)
    spec.has_location = True
    if package is not None:
        spec.submodule_search_locations = [str(package)]
    module = module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        cast("Loader", spec.loader).exec_module(module)
    except BaseException:
        sys.modules.pop(module_name, None)
        raise
    return module


def _module_name(path: Path, project: Path) -> str:
    """Return a name for a module, and make the packages above it, so that its relative imports work.

    The names are the project's own: an installed package may be called `evals` as well.
    """
    package = f"{PREFIX}{hashlib.sha256(str(project).encode()).hexdigest()[:12]}"
    directory = project if path.is_relative_to(project) else path.parent
    _make_package(package, directory)
    note_project(package, directory)
    parts = path.relative_to(directory).with_suffix("").parts
    for part in parts[:-1]:
        directory /= part
        package = f"{package}.{_word(part)}"
        _make_package(package, directory)
    return f"{package}.{_word(parts[-1])}"


def _word(part: str) -> str:
    """Return a part of a path as a part of a module's name, which has no dots: `gpt-4.1` is a good name for a file."""
    return part.replace(".", "\N{MIDDLE DOT}")


def _make_package(name: str, directory: Path) -> None:
    if name in sys.modules:
        return
    if "." in name and (directory / "__init__.py").is_file():
        _execute(name, directory / "__init__.py", package=directory)
    else:
        package = ModuleType(name)
        package.__path__ = [str(directory)]
        sys.modules[name] = package


def _import_error(error: BaseException, path: Path, project: Path, name: str) -> UsageError:
    """Return what is said of a file that cannot be imported: where it is wrong, and which file wanted it."""
    place, line = name, 1
    what = describe(error)
    if isinstance(error, SyntaxError) and error.filename:
        place, line = place_of(error.filename, project), error.lineno or 1
        what = f"{type(error).__name__}: {error.msg}"
    else:
        for file, number in _frames(error.__traceback__):
            if Path(file) == path or is_own_file(file, project):
                place, line = place_of(file, project), number
    middle = "" if place == name else f" (imported by {name})"
    return UsageError(f"{place}:{line}: cannot be imported{middle}: {what}", hint=_hint(error))


def _hint(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"install what `{error.name}` belongs to; the project's own modules are found from its directory"
    if isinstance(error, SystemExit):
        return "files of a project are imported, and must not exit"
    return "mend the file"


def _frames(traceback: TracebackType | None) -> Iterator[tuple[str, int]]:
    """Yield file and line of each call, the innermost last."""
    while traceback is not None:
        yield traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
        traceback = traceback.tb_next


def joined(errors: list[UsageError]) -> UsageError:
    """Return several errors as one, each on a line of its own, with the hint of the first."""
    if len(errors) == 1:
        return errors[0]
    lines = "".join(f"\n  {error.message}" for error in errors)
    return UsageError(f"{len(errors)} things are wrong, and nothing was started:{lines}", hint=errors[0].hint)


__all__ = [
    "ProjectFile", "files_below", "forget", "import_below", "import_file", "joined", "known_projects",
    "make_importable", "place_of", "shown",
]  # fmt: skip
