"""Feature `plugins`: lists, installs, enables, disables and creates plugins."""
