"""Feature `message`: sends messages, polls and reactions from the command line."""
