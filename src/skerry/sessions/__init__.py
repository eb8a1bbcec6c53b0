"""How transcript entries become the messages a model sees (pure)."""
