"""Shows the prompt of a conversation."""
