"""Feature `prompt`: shows the prompt of a conversation."""
