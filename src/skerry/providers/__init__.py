"""Model APIs as one stream of pieces."""
