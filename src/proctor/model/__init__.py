"""Frozen data, standard library only: what the rest of proctor talks about."""
