"""The modules of a project as their sources have them: who imports whom, followed without executing anything."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from proctor.authoring.places import is_own_file
from proctor.authoring.source_text import digest_of_text, normal

OURS = "proctor"
"""Our own version is no part of an identity."""

DYNAMIC = frozenset({"import_module", "__import__"})


@dataclass(frozen=True, slots=True)
class Imports:
    """What statements import: files of the project, and the names of packages from elsewhere."""

    files: frozenset[Path] = frozenset()
    packages: frozenset[str] = frozenset()

    def __or__(self, other: Imports) -> Imports:
        """Return what either has."""
        return Imports(self.files | other.files, self.packages | other.packages)


@dataclass(frozen=True)
class Source:
    """A file of the project, read once. `tree` is None for what is no Python that can be read."""

    path: Path
    text: str
    tree: ast.Module | None

    @cached_property
    def digest(self) -> str:
        """The digest of all that counts of it, as for a file that is imported."""
        return digest_of_text(normal(self.text))

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """Names of attributes, and texts, that stand in it."""
        return frozenset(() if self.tree is None else mentioned_in([self.tree]))


@dataclass
class ProjectModules:
    """Reads and follows the modules of one project; what was read is kept for the life of this object."""

    project: Path
    _sources: dict[Path, Source] = field(default_factory=dict[Path, Source])
    _direct: dict[Path, Imports] = field(default_factory=dict[Path, Imports])
    _followed: dict[Imports, Imports] = field(default_factory=dict[Imports, Imports])

    def source(self, path: Path) -> Source:
        """Return a file. Raises `OSError`."""
        found = self._sources.get(path)
        if found is None:
            text = path.read_bytes().decode("utf-8", "surrogateescape")
            try:
                tree = ast.parse(text)
            except (SyntaxError, ValueError, RecursionError):
                tree = None
            found = self._sources[path] = Source(path, text, tree)
        return found

    @property
    def files(self) -> frozenset[Path]:
        """Every file that was read."""
        return frozenset(self._sources)

    def followed(self, start: Imports) -> Imports:
        """Return everything that is imported from some modules on, through modules of the project."""
        found = self._followed.get(start)
        if found is None:
            found = self._followed[start] = self._follow(start)
        return found

    def _follow(self, start: Imports) -> Imports:
        files: set[Path] = set()
        packages = set(start.packages)
        waiting = list(start.files)
        while waiting:
            path = waiting.pop()
            if path in files:
                continue
            files.add(path)
            direct = self._imports_of_file(path)
            packages |= direct.packages
            waiting += direct.files - files
        return Imports(frozenset(files), frozenset(packages))

    def _imports_of_file(self, path: Path) -> Imports:
        found = self._direct.get(path)
        if found is None:
            try:
                tree = self.source(path).tree
            except OSError:
                tree = None
            found = self._direct[path] = Imports() if tree is None else self.imports_in([tree], path)
        return found

    def imports_in(self, nodes: Iterable[ast.AST], path: Path) -> Imports:
        """Return what the import statements in some nodes of a file import, those inside of functions too."""
        found = Imports()
        for top in nodes:
            for node in ast.walk(top):
                for name in _imported(node):
                    found |= self._resolved(name, path)
        return found

    def _resolved(self, name: _Name, path: Path) -> Imports:
        if name.level:
            folder = path.parent
            for _ in range(name.level - 1):
                folder = folder.parent
            parts = [part for part in name.module.split(".") if part]
            return Imports(frozenset(self._files(folder, parts, name.members)))
        parts = name.module.split(".")
        for root in self._roots():
            files = self._files(root, parts, name.members)
            if files:
                return Imports(frozenset(files))
        top = parts[0]
        if top in sys.stdlib_module_names or top == OURS or not top:
            return Imports()
        root = home_of(top)
        files = self._files(root, parts, name.members) if root is not None else set[Path]()
        return Imports(frozenset(files)) if files else Imports(packages=frozenset({top}))

    def _roots(self) -> list[Path]:
        return [self.project, *own_paths(self.project, tuple(sys.path))]

    def _files(self, root: Path, parts: list[str], members: Iterable[str]) -> set[Path]:
        """Return the files of a module below a folder, of the packages that it is in, and of its members that are
        modules; none where there is no such module."""
        found: set[Path] = set()
        folder = root
        for part in parts:
            module, package = folder / f"{part}.py", folder / part / "__init__.py"
            if package.is_file():
                found.add(package)
            elif module.is_file():
                found.add(module)
            elif not (folder / part).is_dir():
                break
            folder /= part
        if not parts and (folder / "__init__.py").is_file():
            found.add(folder / "__init__.py")
        for member in members:
            for path in (folder / f"{member}.py", folder / member / "__init__.py"):
                if path.is_file():
                    found.add(path)
        return {path for path in found if is_own_file(str(path), self.project)}


@cache
def own_paths(project: Path, paths: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the places inside of a project where Python looks for modules."""
    inside = [Path(path).resolve() for path in paths if path]
    return tuple(path for path in inside if path != project and is_own_file(str(path / "x.py"), project))


@cache
def home_of(package: str) -> Path | None:
    """Return the folder from which a package would be imported: an installed one may lie in the project itself."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or not spec.origin:
        return None
    origin = Path(spec.origin)
    return origin.parent.parent if origin.name == "__init__.py" else origin.parent


@dataclass(frozen=True, slots=True)
class _Name:
    module: str
    level: int = 0
    members: tuple[str, ...] = ()


def _imported(node: ast.AST) -> Iterator[_Name]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield _Name(alias.name)
    elif isinstance(node, ast.ImportFrom):
        yield _Name(node.module or "", node.level, tuple(alias.name for alias in node.names))
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        name = node.args[0].value
        if called in DYNAMIC and isinstance(name, str) and not name.startswith("."):
            yield _Name(name)


def mentioned_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names of attributes and the texts that stand in some nodes."""
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Attribute):
                yield node.attr
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@cache
def versions_of(package: str) -> tuple[tuple[str, str], ...]:
    """Return the distributions that a package comes from, with the versions that are installed; none if unknown."""
    try:
        return ((package, metadata.version(package)),)
    except metadata.PackageNotFoundError:
        pass  # most distributions are called as their package is; to look through all of them takes a while
    names = sorted(set(_distributions().get(package, ())))
    return tuple((name, metadata.version(name)) for name in names)


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(metadata.packages_distributions())


__all__ = ["DYNAMIC", "Imports", "ProjectModules", "Source", "mentioned_in", "versions_of"]
