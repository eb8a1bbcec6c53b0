"""Feature `guard`: scans and fences text from others on the command line, like the gateway."""
