"""A connection to an SMTP server for one message (RFC 5321)."""

import base64
import re
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from skerry.channels.email.config import Security
from skerry.channels.email.line_stream import LineStream, Login, MailEndpoint, connected, within
from skerry.sdk.channel_errors import PlatformError

SECONDS: Final = 10.0
"""Time for one command."""
_MAX_LINES: Final = 100
_FINAL_CODES: Final = 500
_QUESTION: Final = 334
_RETRY_AFTER: Final = re.compile(r"\bin (\d{1,5}) (second|minute|hour)", re.IGNORECASE)
_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600}
_LOGIN: Final = frozenset({530, 534, 535, 538})
_DOT: Final = re.compile(rb"^\.", re.MULTILINE)


async def send(
    endpoint: MailEndpoint,
    credentials: Login | None,
    envelope: tuple[str, str],
    message: bytes,
    before: Callable[[], Awaitable[None]],
) -> None:
    """Sends a message from the first to the second address of the envelope.

    `before` is called when the server has accepted the envelope: from then on it may be delivered.

    Raises:
        PlatformError: the message was not sent, or may have been sent: see `is_sent`.
    """
    sender, recipient = envelope
    is_agreed = False
    try:
        async with connected(endpoint) as lines:
            smtp = await _opened(lines, credentials)
            for command in (f"MAIL FROM:<{sender}>", f"RCPT TO:<{recipient}>", "DATA"):
                await smtp.command(command)
            await before()
            is_agreed = True
            await smtp.give(message)
    except PlatformError as error:
        error.is_sent = error.is_sent and is_agreed
        raise


async def check(endpoint: MailEndpoint, credentials: Login | None) -> None:
    """Logs in and sends nothing. Raises `PlatformError`."""
    async with connected(endpoint) as lines:
        await _opened(lines, credentials)


async def _opened(lines: LineStream, credentials: Login | None) -> "_Smtp":
    smtp = _Smtp(lines)
    await smtp.say_hello()
    if credentials is not None:
        await smtp.log_in(credentials)
    return smtp


class _Smtp(Struct):
    lines: LineStream
    extensions: frozenset[str] = frozenset()

    async def say_hello(self) -> None:
        """Sends EHLO; encrypts the connection by STARTTLS when that is configured."""
        endpoint = self.lines.endpoint
        self._judge(*await self._reply(), is_login=False)
        await self._ehlo()
        if endpoint.security is Security.STARTTLS:
            await self.command("STARTTLS")
            await self.lines.encrypt()
            await self._ehlo()

    async def _ehlo(self) -> None:
        text = await self.command("EHLO [127.0.0.1]")
        self.extensions = frozenset(line.upper() for line in text.splitlines()[1:])

    async def log_in(self, credentials: Login) -> None:
        """Logs in by PLAIN, or by LOGIN when the server offers nothing else."""
        methods = [line.split()[1:] for line in self.extensions if line.startswith("AUTH")]
        offered = {method for line in methods for method in line}
        name, password = credentials.name, credentials.password
        if credentials.token:
            await self._sign_in(offered, credentials.xoauth2)
            return
        if "PLAIN" in offered or "LOGIN" not in offered:
            await self.command(f"AUTH PLAIN {_b64(f'{chr(0)}{name}{chr(0)}{password}')}", "AUTH")
            return
        for text, verb in (("AUTH LOGIN", ""), (_b64(name), "AUTH"), (_b64(password), "AUTH")):
            await self.command(text, verb)

    async def _sign_in(self, offered: set[str], answer: str) -> None:
        if "XOAUTH2" not in offered:
            message = f"{self.lines.endpoint.name} does not support the login by XOAUTH2."
            raise PlatformError(message, is_login=True, is_sent=False)
        await self.lines.write(f"AUTH XOAUTH2 {answer}\r\n".encode())
        code, text = await self._reply()
        if code == _QUESTION:  # the reason of a refusal, which requires an answer
            await self.lines.write(b"\r\n")
            code, text = await self._reply()
        self._judge(code, text, "AUTH", is_login=code in _LOGIN)

    async def command(self, text: str, verb: str = "") -> str:
        """Returns the text of the reply.

        Raises:
            PlatformError: the server refuses the command; nothing was sent.
        """
        await self.lines.write(text.encode() + b"\r\n")
        code, answer = await self._reply()
        self._judge(code, answer, verb or text.partition(":")[0], is_login=code in _LOGIN)
        return answer

    async def give(self, message: bytes) -> None:
        """Sends the content; returns when the server has accepted responsibility for it."""
        lines = message.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        end = b".\r\n" if lines.endswith(b"\r\n") else b"\r\n.\r\n"
        await self.lines.write(_DOT.sub(b"..", lines) + end)
        code, answer = await self._reply()
        self._judge(code, answer, "the message", is_login=False)

    async def _reply(self) -> tuple[int, str]:
        lines: list[str] = []
        with within(SECONDS, self.lines.endpoint):
            while len(lines) < _MAX_LINES:
                line = (await self.lines.line()).decode("utf-8", "replace")
                lines.append(line[4:])
                if not line[:3].isdecimal():
                    break
                if line[3:4] != "-":
                    return int(line[:3]), "\n".join(lines)
        raise PlatformError(f"{self.lines.endpoint.name} does not answer as an SMTP server.")

    def _judge(self, code: int, answer: str, verb: str = "", *, is_login: bool) -> None:
        if code < 400:  # noqa: PLR2004 - lower codes are successes
            return
        text = " ".join(answer.split())[:300]
        refused = f"{self.lines.endpoint.name} refuses {verb or 'the connection'}: {code} {text}"
        wait = _RETRY_AFTER.search(text) if code < _FINAL_CODES else None
        seconds = float(wait[1]) * _UNITS[wait[2].lower()] if wait else None
        raise PlatformError(
            refused,
            code=str(code),
            retry_after=seconds,
            is_login=is_login,
            is_sent=False,
            is_final=code >= _FINAL_CODES,
        )


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
