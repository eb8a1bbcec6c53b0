"""Feature `session_tools`: tools with which a model reads and addresses other conversations."""
