"""Decides when a run may start, and how messages that arrive meanwhile are handled."""
