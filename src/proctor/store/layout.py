"""Every path of a run."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from proctor.errors import CannotStart, JournalLocked, StoreError, UsageError
from proctor.store.files import SYSTEM_FILES, Files, fsync_directory, store_error
from proctor.store.names import (
    NO_MODEL,
    checked_run_id,
    component_name,
    experiment_dir_name,
    run_name_levels,
)

SUFFIX_MAX = 10_000
"""Runs that may start in one second of one experiment before we say that something is wrong."""


@dataclass(frozen=True, slots=True)
class RunLayout:
    """The paths of one run; it owns its directory, which never changes after the run has ended.

    ```
    results/                                        results_dir
      <run-name>/                                   only with --run-name, may be several levels
        <model>_<benchmark>_<harness>/
          <run-id>/                                 directory
            plan.json                               plan
            journal.jsonl                           journal
            journal.lock                            lock, while a process writes the journal
            progress.json                           progress, how it stands while it goes on
            run.log                                 log
            summary.json   summary.md               summary_json, summary_markdown
            summary.html                            summary_html
            attempts/<task>/<ordinal>/              attempt_dir(task, ordinal)
              result.json                           result(task, ordinal)
              tries/<n>/                            try_dir(task, ordinal, n)
                trajectory.json   try.log           what the try left behind
                artifacts/                          what was taken out of the sandbox
                checkpoint/                         what grading needs: answer.txt, files/, manifest.json
    ```

    Nothing is made by asking for a path.
    """

    directory: Path

    @classmethod
    def create(
        cls,
        results_dir: Path,
        experiment_dir: str,
        *,
        default_id: str,
        run_id: str | None = None,
        run_name: str | None = None,
        files: Files = SYSTEM_FILES,
    ) -> RunLayout:
        """Make the directory of a new run, durably, and return its layout.

        `experiment_dir` is a name made by `experiment_dir_name` or `component_name`. `run_id` is what the user chose:
        if it is taken, that is a `UsageError`. Without one, `default_id` (the start time) is used, with `_2`, `_3` ...
        when it is taken, also by a process that starts at the same instant. Raises `UsageError` for a bad run id or
        run name, `CannotStart` when the directory cannot be made.
        """
        if Path(experiment_dir).name != experiment_dir or experiment_dir in ("", ".."):
            raise ValueError(f"not one directory name: {experiment_dir!r}")
        chosen = None if run_id is None else checked_run_id(run_id)
        levels = () if run_name is None else run_name_levels(run_name)
        parent = results_dir.joinpath(*levels, experiment_dir)
        try:
            _make_directories(parent, files)
            for name in [chosen] if chosen is not None else _numbered(default_id):
                if _made(parent / name, files):
                    return cls(parent / name)
        except StoreError as error:
            raise _cannot_start(error) from error
        if chosen is not None:
            raise UsageError(
                f"run id `{chosen}` is taken: `{parent / chosen}` exists",
                hint="choose another `--run-id`, or leave it out to use the start time",
            )
        raise CannotStart(
            f"cannot make a directory for the run: `{parent / default_id}` and {SUFFIX_MAX} like it are taken",
            hint="give the run a name with `--run-id`",
        )

    @contextmanager
    def opening(self, files: Files = SYSTEM_FILES) -> Generator[None]:
        """Guard what is done between making the directory and the first event: all of it, or nothing is left behind.

        Whatever is raised inside discards the directory; a `StoreError` becomes `CannotStart`. A journal that was
        opened inside has to be closed inside as well.
        """
        try:
            yield
        except JournalLocked:
            raise  # another process writes here: its files are not ours to remove
        except StoreError as error:
            self.discard(files)
            raise _cannot_start(error) from error
        except BaseException:
            self.discard(files)
            raise

    def discard(self, files: Files = SYSTEM_FILES) -> None:
        """Remove the directory of a run in which nothing was started, so that its run id is free again.

        Only the files that are there without any attempt are removed. What cannot be removed stays, in silence:
        whoever discards a run is about to say why.
        """
        summaries = (self.summary_json, self.summary_markdown, self.summary_html)
        for path in (self.plan, self.journal, self.lock, self.progress, self.log, *summaries):
            with suppress(OSError):  # most of them are not there yet
                files.unlink(path)
        with suppress(OSError):  # see above
            files.rmdir(self.directory)

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.directory.name

    @property
    def plan(self) -> Path:
        """Every slot, its identity, the decision on it; written before anything starts."""
        return self.directory / "plan.json"

    @property
    def journal(self) -> Path:
        """The append-only events: the truth about the run."""
        return self.directory / "journal.jsonl"

    @property
    def lock(self) -> Path:
        """Who writes the journal; there while it is written."""
        return self.journal.with_suffix(".lock")

    @property
    def progress(self) -> Path:
        """How the run stands, for other processes; replaced about once a second."""
        return self.directory / "progress.json"

    @property
    def log(self) -> Path:
        """The log of the run."""
        return self.directory / "run.log"

    @property
    def summary_json(self) -> Path:
        """The result of the run for programs."""
        return self.directory / "summary.json"

    @property
    def summary_markdown(self) -> Path:
        """The result of the run for people."""
        return self.directory / "summary.md"

    @property
    def summary_html(self) -> Path:
        """The same for a browser."""
        return self.directory / "summary.html"

    @property
    def attempts(self) -> Path:
        """All attempts."""
        return self.directory / "attempts"

    def attempt_dir(self, task: str, ordinal: int) -> Path:
        """Return the directory of the attempt that fills a slot."""
        return self.attempts / component_name(task) / str(ordinal)

    def result(self, task: str, ordinal: int) -> Path:
        """Return the result of an attempt: written once, derived from the journal."""
        return self.attempt_dir(task, ordinal) / "result.json"

    def try_dir(self, task: str, ordinal: int, try_number: int) -> Path:
        """Return the directory of what one try left behind."""
        return self.attempt_dir(task, ordinal) / "tries" / str(try_number)


def free_run_id(default_id: str, directories: Iterable[Path]) -> str:
    """Return the first of `default_id`, with `_2`, `_3` ... behind it, that is taken in none of the directories.

    Where all are taken, that is `default_id`: whoever makes the directory then says so.
    """
    groups = tuple(directories)
    free = (name for name in _numbered(default_id) if not any((group / name).exists() for group in groups))
    return next(free, default_id)


def _numbered(name: str) -> Iterator[str]:
    yield name
    for number in range(2, SUFFIX_MAX + 1):
        yield f"{name}_{number}"


def _make_directories(directory: Path, files: Files) -> None:
    """Make a directory and what is missing above it, durably."""
    missing: list[Path] = []
    try:
        while not directory.is_dir() and directory.parent != directory:
            missing.append(directory)
            directory = directory.parent
    except OSError as error:
        raise store_error("make the directory", directory, error) from error
    for each in reversed(missing):
        _made(each, files)


def _made(directory: Path, files: Files) -> bool:
    """Make one directory, durably, or none; return False when something is there already."""
    try:
        files.mkdir(directory)
        try:
            fsync_directory(files, directory.parent)
        except OSError:
            with suppress(OSError):  # the error above is what counts
                files.rmdir(directory)
            raise
    except FileExistsError:
        return False
    except OSError as error:
        raise store_error("make the directory", directory, error) from error
    return True


def _cannot_start(error: StoreError) -> CannotStart:
    return CannotStart(error.message, hint=error.hint or "choose another `--results-dir`")


__all__ = [
    "NO_MODEL", "RunLayout", "checked_run_id", "component_name", "experiment_dir_name", "run_name_levels",
]  # fmt: skip
