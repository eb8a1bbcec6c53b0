"""Decides when a run may start and what happens to messages that come meanwhile."""
