"""Feature `system_events`: sends agents texts that their next run, or a new run, receives."""
