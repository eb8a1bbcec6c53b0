"""Feature `cron`: starts runs at scheduled times."""
