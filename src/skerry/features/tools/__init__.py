"""Shows which tools an agent has, and the rule that decides about each."""
