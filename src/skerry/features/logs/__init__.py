"""Shows the log of the gateway, running or not."""
