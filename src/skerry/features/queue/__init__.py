"""Lets a person say what becomes of messages that arrive during a run, and stop it."""
