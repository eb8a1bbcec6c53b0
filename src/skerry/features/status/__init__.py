"""Reports the current activity of the gateway."""
