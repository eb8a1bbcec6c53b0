"""Feature `exec`: commands that an agent runs, and the rules that decide on them."""
