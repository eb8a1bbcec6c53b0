"""MS Teams: activities of the Bot Framework."""
