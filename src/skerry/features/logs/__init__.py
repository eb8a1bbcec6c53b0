"""Feature `logs`: prints the log of the gateway, also when it is stopped."""
