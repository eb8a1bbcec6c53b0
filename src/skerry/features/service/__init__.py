"""Keeps the gateway running as a systemd user service."""
