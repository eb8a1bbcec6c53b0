"""Keeps a conversation inside the window of its model: pruning, notes, summaries."""
