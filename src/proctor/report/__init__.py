"""Folds of the event stream, and what they look like to a person or a program."""
