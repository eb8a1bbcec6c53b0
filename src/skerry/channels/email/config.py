"""Section `channels.email`: mailboxes."""

import ipaddress
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, SecretStr, StringConstraints, model_validator

from skerry.config.channel_oauth import QUESTIONS, OAuthConfig
from skerry.config.channels import AccountName, ChannelAccount, ChannelConfig, revealed

Host = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._:-]*$", max_length=253)]
Port = Annotated[int, Field(ge=1, le=65535)]
Address = Annotated[
    str, StringConstraints(pattern=r"^[!#-'*+/-9=?A-Z^-~.-]+@[A-Za-z0-9.-]+$|^$", max_length=254)
]
Folder = Annotated[str, StringConstraints(pattern=r"^[ -~]*$", max_length=255)]
"""A name as IMAP has it: letters beyond ASCII are in its modified UTF-7."""
AuthservId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$", max_length=253)]


class Security(StrEnum):
    """Protection of a connection to a mail server."""

    TLS = "tls"
    """Encrypted from the first byte."""
    STARTTLS = "starttls"
    """Encrypted after the command STARTTLS, before the password is sent."""
    NONE = "none"
    """Not encrypted; for a server on this machine."""


class EmailAccount(ChannelAccount):
    """Settings of one mailbox."""

    not_shared: ClassVar[tuple[str, ...]] = ("name", "address", "username", "password", "oauth")
    login: ClassVar[tuple[tuple[str, str], ...]] = (
        ("password", "Password of the mailbox, or an app password where the provider makes them"),
    )
    login_elsewhere: ClassVar[Mapping[str, tuple[tuple[str, str], ...]]] = {"oauth": QUESTIONS}

    address: Address = ""
    """Address of the mailbox, which belongs to the agent alone."""
    username: str = Field(default="", max_length=254)
    """Name for the login; the address when empty."""
    password: SecretStr | None = None
    """Password of the mailbox."""
    oauth: OAuthConfig | None = None
    """Sign-in at the provider, in place of a password."""
    imap_host: Host = ""
    """IMAP server of the mailbox."""
    imap_port: Port = 993
    """Port of the IMAP server."""
    imap_security: Security = Security.TLS
    """Protection of the connection to the IMAP server."""
    smtp_host: Host = ""
    """SMTP server that sends the mail; the IMAP server when empty."""
    smtp_port: Port = 465
    """Port of the SMTP server; most have 465 for `tls` and 587 for `starttls`."""
    smtp_security: Security = Security.TLS
    """Protection of the connection to the SMTP server."""
    smtp_login: bool = True
    """Logs in at the SMTP server; false for a relay that accepts mail from this machine."""
    allow_plaintext: bool = False
    """Permits `none` for servers on other machines: the password is sent unencrypted."""
    folder: Folder = Field(default="INBOX", min_length=1)
    """Folder whose new messages are answered."""
    sent_folder: Folder = ""
    """Folder of sent mail; when empty, the one that the server marks as such."""
    save_sent: bool = True
    """Stores a copy of each sent mail; false if the server does so itself, as Gmail does."""
    mark_seen: bool = True
    """Marks messages as read when they were accepted."""
    authserv_ids: tuple[AuthservId, ...] = Field(default=(), max_length=8)
    """Names under which your own mail server reports its checks in `Authentication-Results`. The
    sender of a mail is verified only by these servers; without a name no sender is verified."""
    unverified: Literal["stranger", "ignore"] = "stranger"
    """Handling of mail whose sender is not verified: `stranger` accepts it as mail of a person who
    can be paired but is never the owner; `ignore` skips it."""
    most_per_hour: int = Field(default=20, ge=1, le=1000)
    """Messages of one sender that are answered within an hour."""
    poll_seconds: int = Field(default=60, ge=1, le=900)
    """Seconds between two queries of the mailbox if the server has no IDLE."""
    media_max_mb: int = Field(default=10, ge=0, le=25)
    """Largest attachment that is accepted, in MB; 0 accepts none."""

    @model_validator(mode="after")
    def _encrypts(self) -> Self:
        if fault := self.plaintext_fault:
            raise ValueError(fault)
        return self

    @property
    def plaintext_fault(self) -> str:
        """Returns the reason why the settings would send the password unencrypted; empty for none.

        It is called again when an account is opened, because the host may be set for all accounts.
        """
        for host, security, key in (
            (self.imap_host, self.imap_security, "imapSecurity"),
            (self.smtp_host or self.imap_host, self.smtp_security, "smtpSecurity"),
        ):
            if security is Security.NONE and not self.allow_plaintext and not _is_loopback(host):
                return (
                    f"{key} is none, which would send the password to {host or 'the server'} in"
                    " the open; use tls or starttls, or set allowPlaintext"
                )
        return ""

    @property
    def is_configured(self) -> bool:
        """Returns whether there are an address, a server, and a password or a sign-in."""
        signed_in = self.oauth is not None and self.oauth.is_usable
        return bool(self.address and self.imap_host and (revealed(self.password) or signed_in))


def _is_loopback(host: str) -> bool:
    """Returns whether a host is a loopback address; a name could resolve to another machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class EmailConfig(EmailAccount, ChannelConfig):
    """Mailboxes."""

    accounts: Mapping[AccountName, EmailAccount] = Field(default_factory=dict, max_length=64)
    """Further mailboxes by name."""
