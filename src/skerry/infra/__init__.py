"""Access to the operating system and the network, independent of agents."""
