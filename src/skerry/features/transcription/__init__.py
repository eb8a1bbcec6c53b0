"""Transcription: makes text of voice messages, with models that the configuration names."""
