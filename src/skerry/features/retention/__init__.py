"""Feature `retention`: removes sessions beyond the configured limits once a day."""
