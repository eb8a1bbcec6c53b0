"""Imports an installation of OpenClaw."""
