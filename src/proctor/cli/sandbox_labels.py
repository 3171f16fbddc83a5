"""The labels of sandboxes: whose they are, and which process opened them (spec 06 V1)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from proctor import __version__
from proctor.store.lock import this_host
from proctor.store.owner import Owner, owner_if_known

PROJECT_DIGITS = 16


def labels_of(invocation: str, run_id: str, experiment: str, results_dir: Path) -> dict[str, str]:
    """Return what every sandbox of a run is labelled with; what is not known is missing."""
    labels = {
        "proctor": __version__,
        "invocation": invocation,
        "run": run_id,
        "experiment": experiment,
        "owner_host": this_host(),
        "owner_pid": str(os.getpid()),
        "project": project_label(results_dir),
    }
    owner = owner_if_known()
    if owner is not None:
        labels |= {
            "owner_boot": owner.boot_id,
            "owner_pid_namespace": owner.pid_namespace,
            "owner_start": str(owner.process_start_ticks),
        }
    return labels


def project_label(results_dir: Path) -> str:
    """Return what tells the runs of one results directory from all others: a digest of its path, links followed."""
    return hashlib.sha256(os.fsencode(os.path.realpath(results_dir))).hexdigest()[:PROJECT_DIGITS]


def owner_in(labels: Mapping[str, str]) -> Owner | None:
    """Return the process that opened a sandbox; None where its labels do not say all of it."""
    try:
        return Owner(
            labels["owner_host"],
            labels["owner_boot"],
            labels["owner_pid_namespace"],
            int(labels["owner_pid"]),
            int(labels["owner_start"]),
        )
    except (KeyError, ValueError):
        return None
