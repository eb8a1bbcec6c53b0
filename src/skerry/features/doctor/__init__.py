"""Checks an installation and prints remedies."""
