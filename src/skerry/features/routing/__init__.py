"""Explains which agent answers a conversation of a platform, and why."""
