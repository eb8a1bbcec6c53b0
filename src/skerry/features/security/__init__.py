"""Audits the configuration and the files of an installation for what opens it."""
