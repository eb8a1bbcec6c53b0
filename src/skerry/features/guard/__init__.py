"""Feature `guard`: scans and fences foreign text from the command line, like the gateway."""
