"""Feature `devices`: decides which machines may connect."""
