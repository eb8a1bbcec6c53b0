"""Feature `transcription`: transcribes voice messages with configured models."""
