"""One Slack app that receives by HTTP: the Events API, buttons and slash commands, each signed."""

import hashlib
import hmac
import logging
from typing import Final
from urllib.parse import parse_qsl

import anyio
import msgspec
from msgspec import Raw, Struct

from skerry.channels.slack import wire
from skerry.channels.slack.adapter import SlackAdapter
from skerry.channels.slack.api import WebApi
from skerry.channels.slack.config import SlackAccount
from skerry.config.channels import revealed
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import ChannelHost
from skerry.sdk.channels import Inbox, Post, PostAnswer

logger = logging.getLogger(__name__)

WINDOW_SECONDS: Final = 300
"""Seconds by which the time of a request may differ from ours: older ones may be replayed."""
_VERSION: Final = "v0"


class _EventBody(Struct, frozen=True):
    type: str = ""
    challenge: str = ""


_outer = msgspec.json.Decoder(_EventBody)


class SlackHttpAdapter(SlackAdapter):
    """Implements `ports.channel.TakesPosts` in the place of a socket."""

    def __init__(self, settings: SlackAccount, host: ChannelHost, api: WebApi) -> None:
        super().__init__(settings, host, api)
        self._secret = revealed(settings.signing_secret).encode()
        self._inbox: Inbox | None = None

    async def run(self, inbox: Inbox) -> None:
        """Requests the identity of the app, then accepts HTTP requests until cancelled."""
        self._inbox = inbox
        try:
            while not self._me.user_id:
                try:
                    await self._log_in()
                except (PlatformError, msgspec.DecodeError) as error:
                    await anyio.sleep(self.failed(error))
            self.connected(f"@{self._me.user}")
            await anyio.sleep_forever()
        finally:
            self._inbox = None

    async def posted(self, post: Post) -> PostAnswer:
        """Answers one request after its message was accepted; refuses an unsigned one."""
        if post.method != "POST":
            return PostAnswer(405, b"use POST")
        reason = self._refusal(post)
        if reason:
            logger.warning("slack/%s: a request is refused: %s", self.account, reason)
            return PostAnswer(401, reason.encode())
        try:
            envelope = _envelope(post)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return PostAnswer(400, b"the body is no event of Slack")
        if isinstance(envelope, str):
            return PostAnswer(200, envelope.encode())
        inbox = self._inbox
        if inbox is None or not self._me.user_id:
            # Without its own identity the app would answer its own messages.
            return PostAnswer(503, b"the account is not connected yet")
        await self._take(envelope, inbox)
        return PostAnswer()

    def _refusal(self, post: Post) -> str:
        """Returns why a request is not of Slack; empty when it is."""
        stamp = post.headers.get("x-slack-request-timestamp", "")
        if not self._secret or not stamp.isascii() or not stamp.isdigit():
            return "it has no time stamp"
        if abs(self.host.clock.now_ms() / 1000 - int(stamp[:15])) > WINDOW_SECONDS:
            return f"its time differs by more than {WINDOW_SECONDS} s"
        signed = f"{_VERSION}:{stamp}:".encode() + post.body
        right = f"{_VERSION}={hmac.new(self._secret, signed, hashlib.sha256).hexdigest()}"
        signature = post.headers.get("x-slack-signature", "")
        if not hmac.compare_digest(right.encode(), signature.encode("utf-8", "replace")):
            return "its signature is wrong"
        return ""


def _envelope(post: Post) -> wire.Envelope | str:
    """Returns the envelope of a request, as Socket Mode has it; the challenge of a first one."""
    if post.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        form = dict(parse_qsl(post.body.decode(), keep_blank_values=True))
        if "payload" in form:
            return wire.Envelope("interactive", payload=Raw(form["payload"].encode()))
        return wire.Envelope("slash_commands", payload=Raw(msgspec.json.encode(form)))
    outer = _outer.decode(post.body)
    if outer.type == "url_verification":
        return outer.challenge
    kind = "events_api" if outer.type == "event_callback" else outer.type
    return wire.Envelope(kind, payload=Raw(post.body))
