"""A real SMTP server, run by a Python that has aiosmtpd: takes mail of one user, hands it to LMTP.

Arguments: port, port of LMTP, address, password, certificate, file that gets a line per mail.
"""

import asyncio
import logging
import smtplib
import ssl
import sys
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult  # type: ignore[import-not-found]  # of its environment


class Relay:
    """Hands each mail to the server that keeps the mailboxes."""

    def __init__(self, port: int, log: Path) -> None:
        self._port = port
        self._log = log

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        """Accepts a mail; it is in the log before the client receives the reply."""
        del server, session

        def hand_over() -> None:
            with smtplib.LMTP("127.0.0.1", self._port) as lmtp:
                lmtp.sendmail(envelope.mail_from, envelope.rcpt_tos, envelope.content)

        await asyncio.to_thread(hand_over)
        head = envelope.content.partition(b"\r\n\r\n")[0].decode().replace("\r\n ", " ")
        (number,) = (line for line in head.split("\r\n") if line.lower().startswith("message-id:"))
        with self._log.open("a") as log:
            log.write(f"{envelope.rcpt_tos[0]} {number}\n")
        return "250 taken"


async def main() -> None:
    """Serves until it is killed."""
    port, lmtp, name, password, certificate, log = sys.argv[1:]
    logging.getLogger("mail.log").setLevel(logging.CRITICAL)  # it warns of its own attributes
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)

    def authenticate(*words: Any) -> AuthResult:
        given = words[-1]
        is_right = (given.login, given.password) == (name.encode(), password.encode())
        return AuthResult(success=is_right)

    def server() -> SMTP:
        return SMTP(
            Relay(int(lmtp), Path(log)),
            hostname="localhost",
            tls_context=context,
            require_starttls=True,
            auth_required=True,
            authenticator=authenticate,
        )

    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", int(port))
    await listening.serve_forever()


asyncio.run(main())
