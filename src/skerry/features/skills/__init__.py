"""Lists the skills that agents are offered."""
