"""The outside state: a small database of its own. `prepare` and `remove` can be run again at any time."""

import sqlite3
from pathlib import Path

DATABASE = Path(__file__).with_name("inventory.sqlite")


def prepare():
    """Make the database anew."""
    remove()
    with sqlite3.connect(DATABASE) as database:
        database.execute("CREATE TABLE item (name TEXT PRIMARY KEY, count INTEGER)")
        database.executemany("INSERT INTO item VALUES (?, ?)", [("apple", 3), ("pear", 5)])


def remove():
    """Remove the database, if it is there."""
    DATABASE.unlink(missing_ok=True)


def execute(statement):
    """Carry out one statement and return its rows."""
    with sqlite3.connect(DATABASE) as database:
        return database.execute(statement).fetchall()
