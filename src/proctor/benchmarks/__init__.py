"""Sets of tasks, and how they are graded."""
