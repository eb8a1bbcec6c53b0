"""Google Chat: interaction events and the Chat API."""
