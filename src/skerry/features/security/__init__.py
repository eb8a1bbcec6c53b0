"""Feature `security`: finds settings and files that expose an installation."""
