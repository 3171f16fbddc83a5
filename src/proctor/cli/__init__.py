"""The command line: the only place where objects are wired together."""
