"""Lists, installs, switches and creates plugins."""
