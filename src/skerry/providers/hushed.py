"""Hides what must not be repeated in a text that comes in pieces, such as a key that is echoed.

Each event is looked through where it is read; here is what an event begins and the next one ends.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from skerry.model.message import Block, TextBlock, ThinkingBlock
from skerry.ports.model import ModelReply

HIDDEN: Final = "***"


class Hush:
    """One text. What may be the beginning of a secret waits for what follows."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        """Takes the secrets, each of some characters."""
        self._secrets = [secret.decode("utf-8", "replace") for secret in secrets]
        self._held = ""

    def feed(self, piece: str) -> str:
        """Returns the part of the text so far that can be shown now and was not yet."""
        if not self._secrets:
            return piece
        text = hide(self._held + piece, self._secrets)
        held_back = max(_begun(text, secret) for secret in self._secrets)
        self._held = text[len(text) - held_back :]
        return text[: len(text) - held_back]

    def rest(self) -> str:
        """Returns the held text, when nothing follows any more."""
        rest, self._held = self._held, ""
        return rest

    def reply(self, reply: ModelReply) -> ModelReply:
        """Returns the whole reply without the secrets in its texts and thoughts."""
        if not self._secrets:
            return reply
        return replace(reply, content=tuple(self._block(block) for block in reply.content))

    def _block(self, block: Block) -> Block:
        match block:
            case TextBlock(text=text) if (hidden := hide(text, self._secrets)) != text:
                return replace(block, text=hidden)
            case ThinkingBlock(thinking=text) if (hidden := hide(text, self._secrets)) != text:
                return replace(block, thinking=hidden)
            case _:
                return block


def hide(text: str, secrets: Sequence[str]) -> str:
    """Returns the text with stars in place of each secret."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _begun(text: str, secret: str) -> int:
    """Returns how many characters at the end of the text are the beginning of the secret."""
    start = text.find(secret[0], max(0, len(text) - len(secret) + 1))
    while start >= 0 and not secret.startswith(text[start:]):
        start = text.find(secret[0], start + 1)
    return 0 if start < 0 else len(text) - start
