"""Protocols that the core requires of the parts around it."""
