"""Client of the IMAP and SMTP servers of a mailbox: reads, sends and finds mails."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skerry.channels.email import smtp
from skerry.channels.email.config import EmailAccount
from skerry.channels.email.imap import Imap, logged_in
from skerry.channels.email.imap_wire import quoted
from skerry.channels.email.line_stream import Login, MailEndpoint
from skerry.channels.email.wire import MailHead, read_head
from skerry.config.channel_oauth import OAuthConfig
from skerry.config.channels import revealed
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import AccountHttp, ChannelHost

if TYPE_CHECKING:
    from skerry.channels.email.oauth import MailTokens

HEAD_BYTES = 65_536
"""Bytes of the head of a mail that are read."""


class MailServers:
    """The IMAP and the SMTP server of one mailbox."""

    def __init__(self, settings: EmailAccount, host: ChannelHost) -> None:
        sends_at = settings.smtp_host or settings.imap_host
        roots = [
            f"imap://{_bracketed(settings.imap_host)}:{settings.imap_port}",
            f"smtp://{_bracketed(sends_at)}:{settings.smtp_port}",
        ]
        oauth = settings.oauth if settings.oauth and settings.oauth.is_usable else None
        if oauth is not None:
            roots.append(oauth.addresses.token_url)
        http = AccountHttp(roots)
        self._tokens = _tokens(http, oauth, host) if oauth is not None else None
        self._settings = settings
        self._imap = MailEndpoint(
            http, settings.imap_host, settings.imap_port, settings.imap_security
        )
        self._smtp = MailEndpoint(http, sends_at, settings.smtp_port, settings.smtp_security)
        self._name = settings.username or settings.address
        self._password = revealed(settings.password)

    @asynccontextmanager
    async def imap(self) -> AsyncGenerator[Imap]:
        """Connects to the IMAP server for the block. Raises `PlatformError`."""
        try:
            async with logged_in(self._imap, await self._login()) as imap:
                yield imap
        except PlatformError as error:
            self._judge(error)
            raise

    async def send(
        self, recipient: str, message: bytes, before: Callable[[], Awaitable[None]]
    ) -> None:
        """Sends a mail; see `smtp.send`."""
        envelope = (self._settings.address, recipient)
        try:
            await smtp.send(self._smtp, await self._smtp_login(), envelope, message, before)
        except PlatformError as error:
            self._judge(error)
            raise

    async def check(self) -> None:
        """Logs in at both servers. Raises `PlatformError`."""
        async with self.imap() as imap:
            await imap.select(self._settings.folder, read_only=True)
        await smtp.check(self._smtp, await self._smtp_login())

    async def keep(self, message: bytes) -> None:
        """Stores a copy of a mail that was sent. Raises `PlatformError`."""
        async with self.imap() as imap:
            await imap.append(await self._sent_folder(imap), message)

    async def has_sent(self, message_id: str) -> bool:
        """Returns whether the folder of sent mail has a mail. Raises `PlatformError`."""
        async with self.imap() as imap:
            try:
                await imap.select(await self._sent_folder(imap), read_only=True)
            except PlatformError:
                return False  # the folder is created with the first mail
            return bool(await imap.search(_by_id(message_id)))

    async def find(self, message_id: str) -> MailHead | None:
        """Returns the head of a received mail; None when it was deleted."""
        async with self.imap() as imap:
            await imap.select(self._settings.folder, read_only=True)
            for uid in await imap.search(_by_id(message_id)):
                stored = await imap.look(uid, HEAD_BYTES)
                if stored is not None:
                    return read_head(stored.head)
        return None

    async def _sent_folder(self, imap: Imap) -> str:
        return self._settings.sent_folder or await imap.sent_folder()

    async def _login(self) -> Login:
        token = await self._tokens.get() if self._tokens is not None else ""
        return Login(self._name, self._password, token)

    async def _smtp_login(self) -> Login | None:
        return await self._login() if self._settings.smtp_login else None

    def _judge(self, error: PlatformError) -> None:
        """Drops a refused access token, so that the next login requests another."""
        if error.is_login and self._tokens is not None:
            self._tokens.drop()


def _tokens(http: AccountHttp, oauth: OAuthConfig, host: ChannelHost) -> "MailTokens":
    # Imported here: only a sign-in needs ciphers.
    from skerry.channels.email.oauth import MailTokens  # noqa: PLC0415 - at first use

    return MailTokens(http, oauth, host)


def _by_id(message_id: str) -> str:
    return f"HEADER Message-ID {quoted(f'<{message_id}>')}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
