"""Sandboxes, in which the commands of agents run."""
