"""The async shell: acts, reports back by events, decides nothing."""
