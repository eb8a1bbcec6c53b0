"""Feature `skill_registry`: finds, installs, updates and publishes skills of a public registry."""
