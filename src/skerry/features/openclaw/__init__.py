"""Brings an installation of OpenClaw over."""
