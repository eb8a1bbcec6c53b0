"""Feature `guard`: examines and fences text of others from the command line, as agents do."""
