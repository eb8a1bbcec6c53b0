"""Keeps the index of what is remembered fresh, and answers searches."""
