"""What plugins are written against; it changes only as its version says."""
