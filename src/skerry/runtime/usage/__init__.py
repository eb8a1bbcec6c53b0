"""Counts the usage of runs, and ends a run that reaches a limit."""
