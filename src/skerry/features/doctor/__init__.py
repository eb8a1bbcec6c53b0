"""Feature `doctor`: checks an installation and prints remedies."""
