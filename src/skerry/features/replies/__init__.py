"""Lets a person say how replies are sent."""
