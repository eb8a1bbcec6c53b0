"""Speaks to a gateway; used by the command line and the tests."""
