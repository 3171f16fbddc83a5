"""What projects write in Python: tasks, experiments, task groups."""
