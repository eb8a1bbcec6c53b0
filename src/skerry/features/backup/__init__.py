"""Feature `backup`: creates, checks and restores backups of the database."""
