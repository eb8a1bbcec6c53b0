"""Feature `service`: keeps the gateway running as a systemd user service."""
