"""Decisions: no I/O, no async, no clock, no globals; `now` and `rng` are arguments."""
