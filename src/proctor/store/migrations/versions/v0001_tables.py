"""The first format of the record."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0001"
down_revision = None

_TYPES: dict[str, TypeEngine[Any]] = {
    "text": sa.Text(),
    "int": sa.BigInteger(),
    "real": sa.Double(),
    "bool": sa.Boolean(),
}

_WITH_ROWID = {"run", "attempt", "issue", "journal"}

_TABLES: dict[str, tuple[str, ...]] = {
    "invocation": (
        "invocation_id text key",
        "proctor text",
        "host text",
        "pid int",
        "started_at text",
        "ended_at text",
        "runs int",
        "signal int",
    ),
    "run": (
        "run_key int key",
        "root text not null",
        "directory text not null",
        "group_directory text not null",
        "run_id text",
        "invocation_id text",
        "experiment text",
        "benchmark text",
        "harness text",
        "model text",
        "provider text",
        "grading text",
        "attempts_per_task int",
        "slots int",
        "tasks int",
        "early_exit bool",
        "agent_timeout_seconds real",
        "timeout_seconds real",
        "proctor text",
        "journal_format int",
        "host text",
        "pid int",
        "started_at text",
        "ended_at text",
        "completion text",
        "not_dispatched int",
        "signal int",
    ),
    "slot": (
        "run_key int key",
        "task text key",
        "ordinal int key",
        "position int not null",
        "identity text",
        "decision text",
        "reason text",
        "source_attempt_id text",
    ),
    "member": (
        "run_key int key",
        "task text key",
        "ordinal int key",
        "attempt_id text key",
        "kind text key",
        "source_directory text",
    ),
    "attempt": (
        "run_key int key",
        "attempt_id text key",
        "task text",
        "ordinal int",
        "identity text",
        "verdict text",
        "score real",
        "tries int not null",
        "issues int not null",
        "checkpoint_try int",
        "started_at text",
        "ended_at text",
        "agent_seconds real",
        "execution_seconds real",
        "cost_usd real",
        "sub_scores text",
        "checks int",
        "checks_ok int",
    ),
    "try": (
        "run_key int key",
        "attempt_id text key",
        "try_number int key",
        "counted bool not null",
        "grading_only bool not null",
        "outcome text",
        "solved bool",
        "score real",
        "started_at text",
        "ended_at text",
        "open_seconds real",
        "setup_seconds real",
        "agent_seconds real",
        "collect_seconds real",
        "grade_seconds real",
        "dispose_seconds real",
        "backoff_seconds real",
        "checkpointed_at text",
        "answer_sha256 text",
    ),
    "issue": (
        "run_key int not null",
        "attempt_id text",
        "try_number int",
        "position int not null",
        "code text not null",
        "severity text not null",
        "owner text not null",
        "phase text",
        "message text not null",
    ),
    "usage": (
        "run_key int key",
        "attempt_id text key",
        "try_number int key",
        "kind text key",
        "calls int not null",
        "input_tokens int not null",
        "output_tokens int not null",
        "cache_read_tokens int not null",
        "cache_write_tokens int not null",
        "reasoning_tokens int not null",
        "cost_usd real",
    ),
    "artifact": (
        "run_key int key",
        "attempt_id text key",
        "try_number int key",
        "name text key",
        "sha256 text not null",
        "size_bytes int not null",
    ),
    "identity_part": (
        "run_key int key",
        "task text key",
        "part text key",
        "hash text not null",
    ),
    "journal": (
        "run_key int key",
        "bytes int not null",
        "lines int not null",
        "resume_bytes int not null",
        "complete bool not null",
        "tail_sha256 text not null",
        "size_bytes int not null",
        "modified_ns int not null",
        "inode int not null",
        "plan_size_bytes int",
        "plan_modified_ns int",
        "plan_inode int",
        "plan_sha256 text",
        "plan_problem text",
        "problem text",
    ),
}
"""Lines of `name type [key|not null]`, by table."""


def upgrade() -> None:
    """Make all tables and their indexes."""
    for name, lines in _TABLES.items():
        columns: list[sa.Column[Any]] = []
        for line in lines:
            column, kind, *rest = line.split()
            columns.append(
                sa.Column(column, _TYPES[kind], primary_key="key" in rest, nullable=not rest, autoincrement=False)
            )
        op.create_table(name, *columns, sqlite_with_rowid=name in _WITH_ROWID)
    op.create_index("run_by_directory", "run", ["root", "directory"], unique=True)
    op.create_index("run_by_group", "run", ["group_directory"])
    op.create_index("run_by_invocation", "run", ["invocation_id"])
    op.create_index("attempt_by_id", "attempt", ["attempt_id"])
    op.create_index("attempt_by_identity", "attempt", ["identity"])
    op.create_index("attempt_by_slot", "attempt", ["task", "ordinal"])
    op.create_index("issue_by_try", "issue", ["run_key", "attempt_id", "try_number", "position"], unique=True)
    references = sa.text("kind = 'reference'")
    op.create_index(
        "member_by_reference", "member", ["attempt_id"], sqlite_where=references, postgresql_where=references
    )
    sources = sa.text("source_attempt_id IS NOT NULL")
    op.create_index("slot_by_identity", "slot", ["identity"], sqlite_where=sources, postgresql_where=sources)
