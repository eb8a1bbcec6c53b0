"""Feature `heartbeat`: checks that agents run at an interval."""
