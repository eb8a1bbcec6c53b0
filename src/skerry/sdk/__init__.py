"""API for plugins; it changes only as its version says."""
