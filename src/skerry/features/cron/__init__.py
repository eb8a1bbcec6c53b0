"""Starts runs at times that a schedule names."""
