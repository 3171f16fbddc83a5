"""A script that somebody names as if it were a plugin."""

raise SystemExit(0)
