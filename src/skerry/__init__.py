"""Skerry: a self-hosted gateway for personal agents, with memory that is never lost."""

__version__ = "0.1.0"
