"""Decides agent and session key from an inbound message (pure)."""
