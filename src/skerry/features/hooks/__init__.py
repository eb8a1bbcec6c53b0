"""Feature `hooks`: lists, enables and disables the programs that run at events."""
