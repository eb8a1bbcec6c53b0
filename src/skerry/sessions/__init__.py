"""Conversion of transcript entries into the messages for a model (pure)."""
