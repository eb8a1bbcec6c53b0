"""Turns a file into one frozen, checked `Config`, or into an error that names path and remedy."""
