"""Counts what calls of models used, and what they cost."""
