"""Finds, checks and loads plugins, and limits the effects of their failures."""
