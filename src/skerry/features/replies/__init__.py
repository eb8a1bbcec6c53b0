"""Feature `replies`: commands for the delivery of replies."""
