"""Sends messages, polls and reactions over chat platforms from the command line."""
