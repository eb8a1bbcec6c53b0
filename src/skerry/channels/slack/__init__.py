"""Slack: Socket Mode and the Web API."""
