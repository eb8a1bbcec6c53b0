"""Feature `chat`: conversations with an agent in the terminal."""
