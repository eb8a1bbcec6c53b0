"""Builds everything, serves, drains."""
