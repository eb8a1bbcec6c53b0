"""Feature `exec`: commands that an agent runs, and the rules by which they run unasked."""
