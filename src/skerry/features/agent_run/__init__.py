"""Runs an agent for one message and prints its answer, for scripts."""
