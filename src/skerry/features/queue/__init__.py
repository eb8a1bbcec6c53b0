"""Feature `queue`: sets the handling of messages during a run, and stops runs."""
