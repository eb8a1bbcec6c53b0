"""Feature `net`: checks and fetches addresses from the command line, as agents do."""
