"""Feature `agent_run`: runs an agent for one message and prints its answer."""
