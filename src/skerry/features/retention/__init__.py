"""Clears away what is over the limits of the configuration, once a day."""
