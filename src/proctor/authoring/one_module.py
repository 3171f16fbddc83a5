"""A file of a project is one module, by whichever name it is imported: state and classes of it are there once.

Task files are imported under names that are their project's alone, since an installed package may be called `evals` as
well; so relative imports in them ask for `proctor_project_<digest>.evals._shared`, and absolute ones for
`evals._shared`. Whichever comes first is executed, and the other name leads to the same module.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

PREFIX = "proctor_project_"


class _SameModule(Loader):
    """Gives what is a module already another name."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module that there is."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing but keep what it says of itself: it was executed before."""
        module.__spec__ = self._spec


class OneModule(MetaPathFinder):
    """Finds modules of projects that are there by another name; all others are found as ever."""

    def __init__(self) -> None:
        self.projects: dict[str, Path] = {}
        """The directories of projects, by the first part of the names of their own modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is that was imported by its other name."""
        first, _, rest = fullname.partition(".")
        if first in self.projects:
            others = [rest]
        else:
            others = [f"{own}.{fullname}" for own, project in self.projects.items() if str(project) in sys.path]
        for other in others:
            module = sys.modules.get(other)
            file = getattr(module, "__file__", None)
            if module is None or file is None:
                continue
            spec = PathFinder.find_spec(fullname, path)
            if spec is not None and spec.origin == file:
                return ModuleSpec(fullname, _SameModule(module), origin=file)
        return None


FINDER = OneModule()


def note_project(name: str, project: Path) -> None:
    """Let the modules of a project whose own names begin with `name` be found by both of their names."""
    FINDER.projects[name] = project
    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)


def module_there(own: str, path: Path) -> ModuleType | None:
    """Return the module of a file that another file of the project imported, which is called `own` too from now on."""
    for name in (own, own.partition(".")[2]):
        module = sys.modules.get(name)
        if module is not None and getattr(module, "__file__", None) == str(path):
            sys.modules[own] = module
            return module
    return None


__all__ = ["PREFIX", "module_there", "note_project"]
