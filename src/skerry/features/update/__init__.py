"""Feature `update`: looks for a newer version at the origin of this installation."""
