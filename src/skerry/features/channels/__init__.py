"""Adds, shows, restarts and removes accounts on chat platforms, and sends over them."""
