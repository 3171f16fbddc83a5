"""A harness, a benchmark and a grader for proctor."""
