"""Sends agents system events: texts that their next run, or a run at once, receives."""
