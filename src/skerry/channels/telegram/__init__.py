"""Telegram: the Bot API over HTTPS."""
