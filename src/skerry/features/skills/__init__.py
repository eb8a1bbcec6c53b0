"""Feature `skills`: lists the skills of agents."""
