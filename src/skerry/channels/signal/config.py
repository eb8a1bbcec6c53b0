"""Section `channels.signal`: accounts of a signal-cli that the owner runs."""

import re
from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from pydantic import Field, HttpUrl, field_validator

from skerry.config.channels import AccountName, ChannelAccount, ChannelConfig, Root

_NUMBER: Final = re.compile(r"\+[0-9]{4,20}")


class SignalAccount(ChannelAccount):
    """Settings of one number."""

    not_shared: ClassVar[tuple[str, ...]] = ("name", "number")
    login: ClassVar[tuple[tuple[str, str], ...]] = (
        ("number", "Phone number that signal-cli is registered or linked with, such as +491701"),
    )
    login_elsewhere: ClassVar[Mapping[str, tuple[tuple[str, str], ...]]] = {"qr": ()}

    number: str = Field(default="", max_length=21)
    """Phone number of the account, as `+491701234567`."""
    bridge: Literal["daemon", "rest"] = "daemon"
    """Program at `apiRoot`: `signal-cli daemon --http`, or signal-cli-rest-api in its mode
    `json-rpc`."""
    api_root: Root = HttpUrl("http://127.0.0.1:8080")
    """Address of that program. It has no password, so no other client may reach it."""
    media_max_mb: int = Field(default=7, ge=0, le=10)
    """Largest file that is accepted, in MB; 0 accepts none. The daemon gives 7 at most."""

    @field_validator("number")
    @classmethod
    def _has_its_country(cls, value: str) -> str:
        if value and not _NUMBER.fullmatch(value):
            raise ValueError("it is a phone number with its country, such as +491701234567")
        return value

    @property
    def is_configured(self) -> bool:
        """Returns whether there is a number."""
        return bool(self.number)


class SignalConfig(SignalAccount, ChannelConfig):
    """Numbers on Signal."""

    accounts: Mapping[AccountName, SignalAccount] = Field(default_factory=dict, max_length=64)
    """Further numbers by name."""
