"""Feature `routing`: explains which agent answers a conversation of a platform."""
