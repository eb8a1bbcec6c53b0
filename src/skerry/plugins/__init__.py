"""Finds, checks and loads plugins, and keeps what they do from harming anybody."""
