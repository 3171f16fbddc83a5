"""A session of a program: installed, started for each turn, looked at when it ended or was cut off."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from proctor.errors import Fault
from proctor.harnesses.command_declaration import Declaration, filled
from proctor.harnesses.command_endpoint import Endpoint
from proctor.harnesses.command_output import Parser, ProgramReport, ProgramRun, TurnOutput, minus
from proctor.harnesses.command_place import Kept, Place, place_of, said
from proctor.model.attempt import NO_USAGE, Usage, issue_of
from proctor.model.bounds import shortened
from proctor.plugins.api import A_CALL, AttemptContext, Collected, ExecResult, Message, Turn
from proctor.plugins.asking import NOT_TAKEN_ON
from proctor.plugins.exits import code_of_exit

VERSION_SECONDS = 60.0
LARGEST_WORD_BYTES = 128 * 1024 - 1
"""Linux takes no longer word of a command."""
NOT_STARTED = (126, 127)
"""What a shell returns for a program that is not there, or cannot be run."""
LAST_BYTES = 16 * 1024
"""Of each stream so much is looked at for what a failure means."""
PERHAPS_PAID = ("model.server", "model.timeout", "model.connection")
"""What became of a call of which nobody knows what it used."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What there is of a program: its version, None where it cannot be told, and what the installation printed."""

    version: str | None
    log: bytes | None


async def start_session(
    ctx: AttemptContext, declared: Declaration, parser: Parser, endpoint: Endpoint | None
) -> ProgramSession:
    """Install the program where it is not there, and make what it needs. Raises `Fault`."""
    place = await place_of(ctx.sandbox, declared, endpoint)
    installed = await _installed(ctx, place)
    return ProgramSession(ctx, parser, place, installed, endpoint)


async def _installed(ctx: AttemptContext, place: Place) -> Installed:
    declared = place.declared
    log = None
    there = declared.installed is not None and (await place.script(declared.installed)).ok
    if declared.install is not None and not there:
        ctx.progress(f"installing {declared.name} {declared.version or ''}".rstrip())
        done = await place.script(declared.install)
        log = done.stdout + b"\n" + done.stderr
        if not done.ok:
            ctx.log.error("what the installation printed:\n%s", shortened(log.decode("utf-8", "replace"), 64 * 1024))
            raise Fault("harness.crashed", f"{declared.name} could not be installed: {said(done)}")
    version = await _version(ctx, place)
    ctx.progress(f"{declared.name}: version {version or 'unknown'}")
    return Installed(version, log)


async def _version(ctx: AttemptContext, place: Place) -> str | None:
    """Return the version that the program says it has; a version that cannot be told is no trouble."""
    if place.declared.version_command is None:
        return place.declared.version
    words = [filled(word, place.values) for word in place.declared.version_command]
    asked = await place.ask(words, VERSION_SECONDS)
    lines = [line.strip() for line in asked.out.splitlines() if line.strip()]
    if asked.ok and lines:
        return shortened(lines[0], 200)
    ctx.log.warning("the version cannot be told: %s; it printed %r", said(asked), (asked.stdout + asked.stderr)[:1000])
    return None


class ProgramSession:
    """One session of a program in a sandbox."""

    def __init__(
        self, ctx: AttemptContext, parser: Parser, place: Place, installed: Installed, endpoint: Endpoint | None
    ) -> None:
        self._ctx = ctx
        self._parser = parser
        self._place = place
        self._installed = installed
        self._endpoint = endpoint
        self._turns: list[TurnOutput] = []
        self._files: Mapping[str, bytes] = {}
        self._streams: dict[str, Kept] | None = None
        """Of a turn that nobody has looked at yet."""
        self._report = ProgramReport()
        self._told: Usage = NO_USAGE
        self._name = place.declared.name

    async def send(self, message: Message) -> Turn:
        """Run the program for one turn. Raises `Fault` where it ended in a way that leaves no result."""
        place, declared = self._place, self._place.declared
        words = declared.resume if self._turns and declared.resume is not None else declared.command
        place.values["prompt"] = message.text
        filled_words = [_word(filled(word, place.values), self._name) for word in words]
        if declared.names("prompt_file"):
            await place.write(place.values["prompt_file"], message.text)
        stdin = None if declared.stdin is None else filled(declared.stdin, place.values)
        streams = self._streams = {"stdout": Kept(), "stderr": Kept()}
        self._turns.append(TurnOutput(message.text))
        self._ctx.progress(f"{self._name}: turn {len(self._turns)}")
        before = self._told
        result = await place.run(
            filled_words,
            stdin=None if stdin is None else stdin.encode("utf-8", "surrogatepass"),
            on_output=lambda stream, data: streams[stream].add(data),
        )
        report = await self._look(result.exit_code)
        problems = self._problems(result, report)
        codes = {code for code, _ in problems}
        broken = result.exit_code is None or not codes.isdisjoint(PERHAPS_PAID)
        self._tell(report, in_part=broken, refused=not codes.isdisjoint(NOT_TAKEN_ON))
        self._raise(problems)
        if report.answer is None and declared.output.answer:  # it may be so, or the path is wrong
            self._ctx.log.warning("the output of %s has no field `%s`: no answer", self._name, declared.output.answer)
        return Turn(answer=report.answer, usage=minus(self._told, before), steps=report.steps)

    async def collect(self) -> Collected:
        """Return trajectory, streams and files, also of a turn that was cut off."""
        if self._streams is not None:
            report = await self._look(None)
            self._tell(report, in_part=True)
            if report.waiting is not None:
                self._ctx.issue(*report.waiting)
        files = dict(self._of_turns())
        for path, content in self._files.items():
            name = path.removeprefix(self._place.values["state"]).removeprefix(self._place.sandbox.workdir)
            files[name.strip("/").replace("/", "-")] = content
        if self._installed.log is not None:
            files["install.txt"] = self._installed.log
        return Collected(self._report.trajectory, files)

    async def close(self) -> None:
        """Remove what the session wrote outside of the work directory."""
        try:
            await self._place.clear()
        except Fault as fault:  # it is gone with the sandbox
            self._ctx.log.info("%s: %s", self._name, fault)

    async def _look(self, exit_code: int | None) -> ProgramReport:
        """Read what the program left behind so far."""
        streams, self._streams = self._streams or {}, None
        stdout, stderr = streams["stdout"].content, streams["stderr"].content
        dropped = sum(kept.dropped for kept in streams.values())
        turn = replace(self._turns[-1], stdout=stdout, stderr=stderr, output=stdout, exit_code=exit_code)
        self._turns[-1] = turn
        declared, values = self._place.declared, self._place.values
        try:
            self._files, left_out = await self._place.read([filled(pattern, values) for pattern in declared.keep])
            if declared.output.file is not None:
                read, more = await self._place.read([filled(declared.output.file, values)])
                self._turns[-1] = replace(turn, output=next(iter(read.values()), b""))
                left_out += more
            dropped += left_out
        except Fault as fault:  # the sandbox is gone, which costs no more than it has to
            self._ctx.log.warning("the files of %s cannot be read: %s", self._name, fault)
        run = ProgramRun(
            tuple(self._turns), self._files, self._ctx.attempt, self._name, self._installed.version or "unknown",
            self._ctx.model.spec.id if self._endpoint else None,
        )  # fmt: skip
        report = self._report = await asyncio.to_thread(self._parser, run)
        if dropped:
            self._ctx.issue("output.truncated", f"{self._name} wrote too much: {dropped:,} bytes are left out")
        return replace(report, partial=report.partial or dropped > 0)

    def _tell(self, report: ProgramReport, *, in_part: bool, refused: bool = False) -> None:
        """Report what was used since it was reported last, and that there is more of which nobody knows."""
        usage = report.usage or NO_USAGE
        used, self._told = minus(usage, self._told), usage
        self._ctx.usage(used)
        silent = used.calls > 0 and used == Usage(calls=used.calls)  # which is no usage, however many calls it was
        if self._endpoint is None or not (silent or report.usage is None or report.partial or in_part):
            return
        more = "no usage" if silent or report.usage is None else "a part of the usage only"
        self._ctx.issue("usage.missing", f"{self._name} reported {more}")
        if not (silent or refused):
            self._ctx.usage(A_CALL)  # a call at least, of which nothing else is known

    def _of_turns(self) -> Mapping[str, bytes]:
        """Return the streams of all turns as files."""
        files: dict[str, bytes] = {}
        for number, turn in enumerate(self._turns, start=1):
            suffix = "" if number == 1 else f"-{number}"
            files[f"stdout{suffix}.txt"] = turn.stdout
            if turn.stderr:
                files[f"stderr{suffix}.txt"] = turn.stderr
        return files

    def _problems(self, result: ExecResult, report: ProgramReport) -> list[tuple[str, str]]:
        """Return the codes of all problems, with messages: what it says itself, and how it ended."""
        problems = list(report.problems)
        ended = code_of_exit(result)
        if ended is not None and not (problems and ended == "harness.exit_nonzero"):
            problems.append((self._meaning(ended, result), f"{self._name}: {self._last_words(result)}"))
        return problems

    def _raise(self, problems: list[tuple[str, str]]) -> None:
        """Report every problem; raise the first that leaves no result."""
        fatal = next((one for one in problems if issue_of(*one).fatal), None)
        for problem in problems:
            if problem is not fatal:
                self._ctx.issue(*problem)
        if fatal:
            raise Fault(*fatal)

    def _meaning(self, ended: str, result: ExecResult) -> str:
        """Return the code of a failure: what the declaration says of it, else what it is called by itself."""
        if ended != "harness.exit_nonzero":
            return ended
        turn = self._turns[-1]
        last = b"\n".join(stream[-LAST_BYTES:] for stream in (turn.stdout, turn.stderr)).decode("utf-8", "replace")
        for failure in self._place.declared.failures:
            if failure.exit in (None, result.exit_code) and (
                failure.pattern is None or re.search(failure.pattern, last)
            ):
                return failure.code
        return "harness.crashed" if result.exit_code in NOT_STARTED and not turn.stdout else ended

    def _last_words(self, result: ExecResult) -> str:
        turn = self._turns[-1]
        return said(replace(result, stdout=turn.stdout[-LAST_BYTES:], stderr=turn.stderr[-LAST_BYTES:]))


def _word(word: str, name: str) -> str:
    """Return a word as a command can have it, without lone surrogates. Raises `Fault` for one that none can have."""
    data = word.encode("utf-8", "replace")
    if b"\0" in data or len(data) > LARGEST_WORD_BYTES:
        why = "it holds a NUL" if b"\0" in data else f"it is longer than {LARGEST_WORD_BYTES:,} bytes"
        how = "pass the prompt by `{prompt_file}`, or by `stdin`"
        raise Fault("harness.crashed", f"a word of the command of {name} cannot be passed: {why}; {how}")
    return data.decode()
