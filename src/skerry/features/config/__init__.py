"""Lets the owner change the configuration by commands."""
