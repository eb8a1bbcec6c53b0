"""Feature `session_tools`: tools by which a model sees and addresses other conversations."""
