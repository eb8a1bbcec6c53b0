"""Keeps a conversation within the context window of its model: pruning, notes, summaries."""
