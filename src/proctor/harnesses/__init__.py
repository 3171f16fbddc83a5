"""Harnesses that come with proctor."""
