"""Feature `config`: shows, checks and changes the configuration."""
