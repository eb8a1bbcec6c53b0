"""Lets a person talk to an agent in the terminal."""
