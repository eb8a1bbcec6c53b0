"""API for plugins. Import only from here: all other modules may change with any version."""
