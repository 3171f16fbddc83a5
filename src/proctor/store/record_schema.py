"""The tables of the record: an index over the journals of a results root, in SQL that a person can write by hand.

Every row derives from the plan.json and the journal of one run, and `run_key` leads to that run. Moments are texts in
UTC, `2026-11-30T16:30:35.123456Z`, which sort as they are; durations are seconds; what is unknown is NULL, never 0.
`docs/record.md` says the same for people; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import Index, Table

from proctor.store.record_columns import table

APPLICATION_ID = 0x50524352
"""Marks a SQLite file as a record: "PRCR"."""

REVISIONS = ("0001", "0002")
"""The formats of the record, oldest first, as the migrations name them; this proctor writes the last."""

_RUN_KEY = "run_key int key: the run"
_ATTEMPT = "attempt_id text key: the attempt"
_TRY = "try_number int key: the try, from 1 on"

INVOCATION = table(
    "invocation",
    "invocation_id text key: 12 random base32 characters",
    "proctor text: version of proctor",
    "host text: machine that it ran on",
    "pid int: process that it ran in",
    "started_at text: when its first run started",
    "ended_at text: when its last run ended; NULL while one has not, or was killed",
    "runs int: how many runs it has",
    "signal int: number of the signal that interrupted it; 0 for another cause, NULL where nothing did",
)

RUN = table(
    "run",
    "run_key int key: the same number for the same directory, always",
    "root text not null: results root; empty for the one that the record lies in",
    "directory text not null: directory of the run below the results root",
    "group_directory text not null: directory above it: run name and model_benchmark_harness",
    "run_id text: start time, or what `--run-id` said",
    "invocation_id text: the invocation",
    "experiment text: name of the experiment",
    "benchmark text: id of the benchmark",
    "harness text: id of the harness",
    "model text: id of the model; NULL without one",
    "provider text: provider of its sandboxes",
    "grading text: none, fresh or reuse",
    "attempts_per_task int: slots of each task",
    "slots int: the denominator",
    "tasks int: how many tasks the slots are of",
    "early_exit bool: whether a solved task stops its other slots",
    "agent_timeout_seconds real: limit of the agent phase; NULL is none",
    "timeout_seconds real: limit of a whole try; NULL is none",
    "proctor text: version of proctor",
    "journal_format int: version of the journal",
    "host text: machine that it ran on",
    "pid int: process that it ran in",
    "started_at text: when it started",
    "ended_at text: when it ended; NULL while it runs, or when it was killed",
    "completion text: complete, interrupted or stopped; NULL as above",
    "not_dispatched int: slots that were given up without an attempt",
    "signal int: number of the signal that interrupted it; 0 for another cause, NULL where nothing did",
    rowid=True,
)

SLOT = table(
    "slot",
    _RUN_KEY,
    "task text key: id of the task",
    "ordinal int key: which of the task's slots",
    "position int not null: its place in plan order, from 0 on",
    "identity text: hash of everything that can change its result",
    "decision text: what the plan said: execute, reuse, grade only, ...",
    "reason text: why",
    "source_attempt_id text: the attempt that the plan reuses or grades again",
)

MEMBER = table(
    "member",
    _RUN_KEY,
    "task text key: the slot",
    "ordinal int key: the slot",
    "attempt_id text key: the attempt that fills it; for a reference, of another run",
    "kind text key: origin (executed here) or reference (reused, carried or accepted)",
    "source_directory text: for a reference, the directory of the run that executed it",
)

ATTEMPT = table(
    "attempt",
    _RUN_KEY,
    "attempt_id text key: 12 random base32 characters, shown as `@id`",
    "task text: the slot that it fills",
    "ordinal int: the slot that it fills",
    "identity text: identity of that slot",
    "verdict text: passed, failed, errored, skipped or cancelled; NULL while it is not sealed",
    "score real: score of the counted try, from 0 to 1",
    "tries int not null: how many tries it has in this run",
    "issues int not null: issues of the counted try, or those without one",
    "checkpoint_try int: the last try that saved what grading needs",
    "started_at text: when its first try was dispatched",
    "ended_at text: when it was sealed",
    "agent_seconds real: agent phase of the try whose work counts",
    "execution_seconds real: all phases of that work and its grading but dispose, waiting not counted",
    "cost_usd real: all tries, agent and grader; NULL where a part is unknown",
    "sub_scores text: JSON object of the counted try's sub-scores",
    "checks int: checks of the counted try",
    "checks_ok int: how many of them were met",
    rowid=True,
)

TRY = table(
    "try",
    _RUN_KEY,
    _ATTEMPT,
    _TRY,
    "counted bool not null: whether it is the last one, which counts",
    "grading_only bool not null: whether the work was taken from an earlier try",
    "outcome text: graded, broken, cancelled or skipped; NULL where it never ended",
    "solved bool: what the grader said",
    "score real: what the grader said",
    "started_at text: when it was dispatched",
    "ended_at text: when it was over",
    "open_seconds real: phase open",
    "setup_seconds real: phase setup",
    "agent_seconds real: phase agent",
    "collect_seconds real: phase collect",
    "grade_seconds real: phase grade",
    "dispose_seconds real: phase dispose",
    "backoff_seconds real: waiting inside the try for what refused for now",
    "checkpointed_at text: when what grading needs was saved",
    "answer_sha256 text: digest of the saved answer",
)

ISSUE = table(
    "issue",
    "run_key int not null: the run",
    "attempt_id text: the attempt; NULL for what concerns the whole run",
    "try_number int: the try; NULL before the first one",
    "position int not null: which one of the try",
    "code text not null: see codes.md",
    "severity text not null: FATAL, ERROR or WARNING",
    "owner text not null: whose doing it is",
    "phase text: phase in which it happened",
    "message text not null: what happened, for people",
    rowid=True,
)

USAGE = table(
    "usage",
    _RUN_KEY,
    _ATTEMPT,
    _TRY,
    "kind text key: agent or grader",
    "calls int not null: calls of a model",
    "input_tokens int not null: neither read from nor written to a cache",
    "output_tokens int not null: reasoning included",
    "cache_read_tokens int not null: read from a cache",
    "cache_write_tokens int not null: written to a cache",
    "reasoning_tokens int not null: part of output_tokens",
    "cost_usd real: NULL is unknown",
    "cost_at_least_usd real: all of cost_usd, or the part of it that is known",
    "unpriced_calls int: calls with a cost of which not all is known",
    "price_sources text: where the cost comes from, with commas between; NULL where nothing says it",
)

ARTIFACT = table(
    "artifact",
    _RUN_KEY,
    _ATTEMPT,
    _TRY,
    "name text key: path below the directory of the try",
    "sha256 text not null: digest of its content",
    "size_bytes int not null: its size",
)

IDENTITY_PART = table(
    "identity_part",
    _RUN_KEY,
    "task text key: the task; empty for a part that all slots of the run share",
    "part text key: name of the part",
    "hash text not null: its digest",
)

JOURNAL = table(
    "journal",
    _RUN_KEY,
    "bytes int not null: so much of the journal is indexed",
    "lines int not null: so many events are indexed",
    "resume_bytes int not null: where the first event of an attempt that is not sealed begins",
    "complete bool not null: whether the run has ended",
    "tail_sha256 text not null: digest of the last indexed bytes, to know the journal again",
    "size_bytes int not null: size of the journal when it was last looked at",
    "modified_ns int not null: when it was modified, in nanoseconds since 1970",
    "inode int not null: number of its file",
    "plan_size_bytes int: size of plan.json; NULL where it is missing",
    "plan_modified_ns int: when plan.json was modified",
    "plan_inode int: number of its file",
    "plan_sha256 text: digest of plan.json",
    "plan_problem text: why plan.json could not be read",
    "problem text: why the journal could not be indexed to its end",
    rowid=True,
)

TABLES: tuple[Table, ...] = (
    INVOCATION, RUN, SLOT, MEMBER, ATTEMPT, TRY, ISSUE, USAGE, ARTIFACT, IDENTITY_PART, JOURNAL,
)  # fmt: skip
"""All tables, those first that others lead to."""

RUN_TABLES = tuple(each for each in TABLES if "run_key" in each.c)
ATTEMPT_TABLES = (MEMBER, ATTEMPT, TRY, ISSUE, USAGE, ARTIFACT)
"""The tables with rows of one attempt."""

COLUMNS = {each.name: tuple(column.name for column in each.columns) for each in TABLES}
"""The names of the columns, by table, in their order."""

BOOKKEEPING = frozenset({"size_bytes", "modified_ns", "inode", "plan_size_bytes", "plan_modified_ns", "plan_inode"})
"""Columns of `journal` that say how it was indexed and not what it says: a rebuild may find other values."""

Index("run_by_directory", RUN.c.root, RUN.c.directory, unique=True)
Index("run_by_group", RUN.c.group_directory)
Index("run_by_invocation", RUN.c.invocation_id)
Index("attempt_by_id", ATTEMPT.c.attempt_id)
Index("attempt_by_identity", ATTEMPT.c.identity)
Index("attempt_by_slot", ATTEMPT.c.task, ATTEMPT.c.ordinal)
Index("issue_by_try", ISSUE.c.run_key, ISSUE.c.attempt_id, ISSUE.c.try_number, ISSUE.c.position, unique=True)
_PARTIAL = (
    Index("member_by_reference", MEMBER.c.attempt_id, sqlite_where=MEMBER.c.kind == "reference"),
    Index("slot_by_identity", SLOT.c.identity, sqlite_where=SLOT.c.source_attempt_id.is_not(None)),
)


def complete_for_postgresql() -> None:
    """Say of the partial indexes what they are in PostgreSQL; not at import, where it takes a tenth of a second."""
    for index in _PARTIAL:
        index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
