"""The command `/retry`, which clients execute with the method `chat.retry`."""

from typing import Final

RETRY: Final = "/retry"
"""Command that is answered at once as a message; people wait for the other run."""
NOTHING_TO_RETRY: Final = "NOTHING_TO_RETRY"
"""Code of the refusal when the last message was answered."""
