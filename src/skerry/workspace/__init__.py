"""Reads the files of an agent's workspace and makes its system prompt of them."""
