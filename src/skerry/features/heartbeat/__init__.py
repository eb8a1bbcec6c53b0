"""Checks that an agent does by itself at an interval."""
