"""Protocols that the core requires of its surroundings."""
