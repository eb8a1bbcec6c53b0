"""Lets a person say which machines may connect."""
