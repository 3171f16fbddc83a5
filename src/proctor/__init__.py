"""proctor runs agent evaluations and accounts for every slot of them.

Nothing is imported here beyond the version: importing `proctor` has no side effect and costs nothing.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
