"""Decodes the body of a response while it arrives, up to a limit of decoded bytes."""

import zlib
from typing import Final

ACCEPTED: Final = "gzip, deflate"
"""Value of `accept-encoding`: the encodings whose decoder takes a limit."""
_STEP: Final = 256 * 1024
_WINDOW_BITS: Final = {
    "gzip": 47,
    "x-gzip": 47,
}  # 32 + 15: zlib detects the format by its header


class EncodingError(Exception):
    """The body has an encoding that was not requested, or is not valid in its encoding."""


class Decoder:
    """Collects at most `limit` decoded bytes.

    It decodes at most 256 KiB at a time, so that a small body cannot expand to gigabytes.
    """

    def __init__(self, encoding: str, limit: int) -> None:
        """Prepares the decoder for a value of the header `content-encoding`.

        Raises:
            EncodingError: the header names another encoding, or several.
        """
        name = encoding.strip().lower()
        if name not in {"", "identity", "deflate", *_WINDOW_BITS}:
            raise EncodingError(
                f"Unknown content-encoding {name[:40]!r} of the body. Encodings: {ACCEPTED}."
            )
        self._limit = limit
        self._body = bytearray()
        self._name = name
        self._zlib = zlib.decompressobj(_WINDOW_BITS[name]) if name in _WINDOW_BITS else None
        self.is_full = False
        """True if the body has more bytes than the limit."""

    @property
    def body(self) -> bytes:
        """Returns the decoded bytes, at most `limit` of them."""
        return bytes(self._body)

    def feed(self, data: bytes) -> bool:
        """Decodes received bytes; returns False when the body exceeds the limit.

        Raises:
            EncodingError: the bytes are not valid in the encoding.
        """
        if self._name == "deflate" and self._zlib is None:
            # Some servers send the bare stream, others send it with the header of zlib.
            is_wrapped = data[:1] and data[0] & 0x0F == zlib.DEFLATED
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS if is_wrapped else -zlib.MAX_WBITS)
        if self._zlib is None:
            self._take(data)
        while self._zlib is not None and data and not self.is_full:
            try:
                self._take(self._zlib.decompress(data, _STEP))
            except zlib.error as error:
                raise EncodingError(f"The body is not valid {self._name}: {error}.") from error
            data = self._zlib.unconsumed_tail
        return not self.is_full

    def end(self) -> None:
        """Decodes the remaining bytes after the end of the body.

        Raises:
            EncodingError: the body ends before its encoding does.
        """
        if self._zlib is not None and not self._zlib.eof and not self.is_full:
            self._take(self._zlib.flush(_STEP))
            if not self._zlib.eof:
                raise EncodingError(f"The body is truncated: its {self._name} stream has no end.")

    def _take(self, data: bytes) -> None:
        room = self._limit - len(self._body)
        self._body += data[:room]
        self.is_full = len(data) > room
