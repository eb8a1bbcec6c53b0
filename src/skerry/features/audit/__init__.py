"""Shows and verifies the log of what people and gates decided."""
