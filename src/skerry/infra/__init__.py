"""Talks to the operating system and the network safely and knows nothing of agents."""
