"""Feature `status`: reports the current activity of the gateway."""
