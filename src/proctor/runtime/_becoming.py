"""How the fresh child of a supervisor becomes the command. Imports as little as `_supervisor.py` does."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` alone would double the time that a start takes
if TYPE_CHECKING:
    import signal as signals
    from typing import Any

    from proctor.runtime import _bounding, _joining, _killing
else:
    import _signal as signals  # the plain module: without the enums, which cost 5 ms

    import _bounding
    import _joining
    import _killing

IGNORED = (
    signals.SIGHUP,
    signals.SIGINT,
    signals.SIGQUIT,
    signals.SIGPIPE,
    signals.SIGTERM,
    signals.SIGUSR1,
    signals.SIGUSR2,
    signals.SIGALRM,
)
"""What the command could end its supervisor with, by accident or not."""


def become(request: dict[str, Any], groups: _bounding.Groups, gate: int, supervisor: int) -> None:
    """Turn this fresh child into the command; never returns. What cannot be run ends with 126 or 127, as in a shell.

    `supervisor` is its parent as the child sees it: 0 where that is outside of its namespace.
    """
    doing = "set limits"
    try:
        signals.set_wakeup_fd(-1)
        for number in (*IGNORED, signals.SIGCHLD, signals.SIGCONT, signals.SIGXFSZ):
            signals.signal(number, signals.SIG_DFL)
        os.setsid()
        # The last resort where supervisor and runner are killed together:
        _killing.prctl(_killing.PR_SET_PDEATHSIG, signals.SIGKILL)
        if not os.read(gate, 1) or os.getppid() != supervisor:  # it is lost: nobody would answer for the command
            os._exit(126)
        groups.enter()
        if request["inside"] is None:
            _killing.write_text("/proc/self/oom_score_adj", _killing.OOM_SCORE)
        _bounding.set_limits(request)
        doing = f"enter {os.fsdecode(request['cwd'])!r}"
        os.chdir(request["cwd"])
        if request["inside"] is not None:
            doing = "confine the command"
            if os.fstat(0).st_rdev:  # /dev/null of this machine, whose mode could be changed by it
                os.dup2(os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC), 0)
            _joining.drop_privileges(request["inside"]["filter"])
        doing = f"run {os.fsdecode(request['argv'][0])!r}"
        run_program(request["argv"], request["env"])
    except BaseException as error:
        try:  # whatever comes: to print an error, the interpreter would read files of the sandbox, with our rights
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            os.write(2, f"proctor: cannot {doing}: {reason}\n".encode("utf-8", "backslashreplace"))
        finally:
            os._exit(127 if isinstance(error, FileNotFoundError) and doing.startswith("run") else 126)


def run_program(argv: list[bytes], env: dict[bytes, bytes]) -> None:
    """Become the program, looked for as a shell would; raises `OSError` if that fails, else never returns."""
    if b"/" in argv[0]:
        os.execve(argv[0], argv, env)  # noqa: S606
    failure: OSError | None = None
    for directory in env.get(b"PATH", os.defpath.encode()).split(b":"):
        try:
            os.execve(directory + b"/" + argv[0], argv, env)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError):  # look on
            continue
        except OSError as error:
            failure = failure or error
    raise failure or FileNotFoundError(2, "not found on PATH")
