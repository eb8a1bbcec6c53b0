"""Section `channels.imessage`: Macs with a BlueBubbles server."""

import re
from collections.abc import Mapping
from typing import ClassVar, Final

from pydantic import Field, HttpUrl, SecretStr, field_validator

from skerry.config.channels import AccountName, ChannelAccount, ChannelConfig, Root, revealed

_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{16,128}")


class IMessageAccount(ChannelAccount):
    """Settings of one Mac."""

    not_shared: ClassVar[tuple[str, ...]] = ("name", "api_root", "password", "webhook_secret")
    login: ClassVar[tuple[tuple[str, str], ...]] = (
        ("password", "Password of the BlueBubbles server"),
        ("apiRoot", "Address of the BlueBubbles server, such as http://192.168.1.5:1234"),
    )

    api_root: Root = HttpUrl("http://127.0.0.1:1234")
    """Address of the BlueBubbles server."""
    password: SecretStr | None = None
    """Password of the BlueBubbles server; it is part of each request's address."""
    webhook_secret: SecretStr | None = None
    """Last part of the address for BlueBubbles webhooks; without it all webhooks are refused."""
    poll_seconds: float = Field(default=5.0, ge=0.2, le=300.0)
    """Seconds between two queries for new messages; a webhook triggers one at once."""
    media_max_mb: int = Field(default=10, ge=0, le=10)
    """Largest file that is accepted, in MB; 0 accepts none."""

    @field_validator("webhook_secret")
    @classmethod
    def _cannot_be_guessed(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _SECRET.fullmatch(value.get_secret_value()):
            raise ValueError(
                "it has 16 to 128 letters, digits, - and _, as it is part of an address"
            )
        return value

    @property
    def is_configured(self) -> bool:
        """Returns whether there is a password."""
        return bool(revealed(self.password))


class IMessageConfig(IMessageAccount, ChannelConfig):
    """Macs that send and receive iMessages."""

    accounts: Mapping[AccountName, IMessageAccount] = Field(default_factory=dict, max_length=64)
    """Further Macs by name."""
