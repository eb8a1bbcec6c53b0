"""Reads the files of an agent's workspace and builds its system prompt."""
