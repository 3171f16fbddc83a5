"""Makers of sandboxes."""
