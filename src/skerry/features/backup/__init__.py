"""Makes, checks and restores backups of the database."""
