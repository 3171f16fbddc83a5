"""What grading needs, saved after collect, and read back: from here on grading can be repeated without the agent.

    tries/<n>/
        artifacts/...              what was taken out of the sandbox
        checkpoint/answer.txt      the answer, if there is one
        checkpoint/files/...       the files that the harness collected
        checkpoint/manifest.json   what each file is, where there is more than an answer

The files are written first; the line of the journal with their digests makes them a checkpoint. Without that line, as
after a failure or where grading happens in the agent's sandbox, they are evidence. Reading checks each digest and size.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from proctor.errors import Fault, describe
from proctor.model.attempt import Phase
from proctor.model.events import SavedFile
from proctor.runtime.collecting import Kept, is_inside, open_file, place_of, saved_file
from proctor.runtime.job import Checkpoint, Save, TryFolder

FORMAT = 1
ANSWER = "checkpoint/answer.txt"
FILES = "checkpoint/files"
MANIFEST = "checkpoint/manifest.json"

LISTED_AT_MOST = 100
"""So many files are in the journal one by one; more are in the manifest alone, whose own digest is in the journal."""


@dataclass(frozen=True, slots=True)
class Work:
    """The agent's part of a try, as grading gets it.

    `files` are those of the harness by name, `artifacts` the copies on this machine by the path in the sandbox, whose
    work directory was `workdir`.
    """

    answer: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    artifacts: Mapping[str, Path] = field(default_factory=dict[str, Path])
    workdir: str = "/"

    def without(self, rewards: Collection[str]) -> Work:
        """Return what may be handed over: no reward file, neither by the name of a file nor as an artifact."""
        if not rewards:
            return self
        places = [place_of(path, self.workdir) for path in rewards]

        def planted(path: str) -> bool:
            return any(is_inside(place_of(path, self.workdir), place) for place in places)

        return replace(
            self,
            files={name: content for name, content in self.files.items() if not planted(name)},
            artifacts={path: copy for path, copy in self.artifacts.items() if not planted(path)},
        )


class Writing:
    """Saves the agent's part of one try. Raises `Fault` where that cannot be done. May be used in a thread."""

    def __init__(self, save: Save, folder: TryFolder | None) -> None:
        self._save = save
        self._folder = folder
        self._saved: list[SavedFile] = []

    def answer(self, content: bytes) -> str:
        """Save the answer; return its digest."""
        return self._keep(ANSWER, content).sha256

    def files(self, files: Mapping[str, bytes], kept: Sequence[Kept], workdir: str) -> None:
        """Save the files of the harness, and write down what was taken out of the sandbox."""
        assert self._folder is not None, "a try that keeps files has a folder"
        names = {name: f"{FILES}/{self._folder.name_of(name)}" for name in files}
        found = [self._keep(names[name], content) for name, content in files.items()]
        found += [file for one in kept for file in one.files]
        manifest = {
            "format": FORMAT,
            "workdir": workdir,
            "files": names,
            "artifacts": {one.path: one.name for one in kept},
            "digests": {file.name: [file.sha256, file.size] for file in found},
        }
        # Pure ASCII keeps names that are no UTF-8 as they are.
        content = json.dumps(manifest, ensure_ascii=True, indent=1).encode("ascii") + b"\n"
        self._saved.append(self._keep(MANIFEST, content))
        if len(found) <= LISTED_AT_MOST:
            self._saved += found

    @property
    def saved(self) -> tuple[SavedFile, ...]:
        """What the journal is to list, beside the answer's digest."""
        return tuple(self._saved)

    def _keep(self, name: str, content: bytes) -> SavedFile:
        self._save(name, content)
        return SavedFile(name, hashlib.sha256(content).hexdigest(), len(content))


def load_checkpoint(checkpoint: Checkpoint) -> Work:
    """Return what was saved, every file checked; for a thread.

    Raises `Fault` (checkpoint.damaged) where anything is missing, has changed or cannot be read.
    """
    try:
        return _Reading(checkpoint.directory, checkpoint.files).work(checkpoint.answer_sha256)
    except Fault:
        raise
    except Exception as error:  # whatever was done to the files
        raise _damaged(checkpoint.directory, describe(error)) from error


def _damaged(directory: Path, why: str) -> Fault:
    return Fault("checkpoint.damaged", f"what was saved in {directory} is of no use: {why}", phase=Phase.GRADE)


class _Reading:
    def __init__(self, directory: Path, files: Sequence[SavedFile]) -> None:
        self._directory = directory
        self._files = {file.name: file for file in files}

    def work(self, answer_sha256: str | None) -> Work:
        answer = None if answer_sha256 is None else self._answer(answer_sha256)
        if MANIFEST not in self._files:
            return Work(answer)
        manifest: Any = json.loads(self._read(MANIFEST))
        if manifest["format"] != FORMAT:
            raise _damaged(self._directory, f"its manifest has format {manifest['format']}")
        for name, (sha256, size) in manifest["digests"].items():
            self._files.setdefault(name, SavedFile(name, sha256, size))
        return Work(
            answer,
            {name: self._read(saved) for name, saved in manifest["files"].items()},
            {path: self._checked(saved) for path, saved in manifest["artifacts"].items()},
            manifest["workdir"],
        )

    def _answer(self, sha256: str) -> str:
        content = self._content(ANSWER)
        if hashlib.sha256(content).hexdigest() != sha256:
            raise _damaged(self._directory, f"{ANSWER} has changed")
        return content.decode("utf-8", "surrogatepass")

    def _content(self, name: str) -> bytes:
        with open_file(self._path(name)) as file:
            return file.read()

    def _read(self, name: str) -> bytes:
        content = self._content(name)
        self._compare(SavedFile(name, hashlib.sha256(content).hexdigest(), len(content)))
        return content

    def _checked(self, name: str) -> Path:
        """Return the copy of an artifact, which has exactly the files that were saved."""
        top = self._path(name)
        if name in self._files:
            self._compare(saved_file(top, name))
            return top
        found: set[str] = set()
        for folder, folders, names in os.walk(top, onerror=_raise):
            below = os.path.join(name, os.path.relpath(folder, top)) if folder != str(top) else name
            links = [inner for inner in folders if os.path.islink(os.path.join(folder, inner))]
            for inner in links + names:
                file = saved_file(Path(folder, inner), f"{below}/{inner}")  # raises for what is no file
                self._compare(file)
                found.add(file.name)
        wanted = {file for file in self._files if file.startswith(f"{name}/")}
        if wanted != found:
            raise _damaged(self._directory, f"{min(wanted - found)} is missing")
        return top

    def _path(self, name: str) -> Path:
        path = self._directory / name
        if not path.resolve().is_relative_to(self._directory.resolve()):
            raise _damaged(self._directory, f"{name} leads out of it")
        return path

    def _compare(self, found: SavedFile) -> None:
        saved = self._files.get(found.name)
        if saved is None:
            raise _damaged(self._directory, f"{found.name} was not saved")
        if found != saved:
            raise _damaged(self._directory, f"{found.name} has changed")


def _raise(error: OSError) -> None:
    raise error
