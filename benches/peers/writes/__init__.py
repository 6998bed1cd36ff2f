"""Engines of `writes.py`, and the writes that they are given."""
