"""Counts what runs use, and ends what reaches a limit."""
