"""Lets a person begin, resume, search, summarise and retry a conversation by commands."""
