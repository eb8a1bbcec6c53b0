"""Feature `fences`: lists files that prompts include only as data, and trusts them."""
