"""Feature `usage`: reports usage and cost of model calls."""
