"""Readers of the data that packages of the registry bring."""
