"""Feature `stubs`: empty responses of methods whose features this gateway lacks."""
