"""Selects agent and session key for an inbound message (pure)."""
