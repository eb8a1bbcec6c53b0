"""Section `channels.whatsapp`: business numbers on the Cloud API."""

from collections.abc import Mapping
from typing import ClassVar, Final

from pydantic import Field, HttpUrl, SecretStr, field_validator

from skerry.config.channels import AccountName, ChannelAccount, ChannelConfig, Root, revealed

MIN_SECRET_CHARS: Final = 16
"""Characters of a text that must not be guessed."""


class WhatsAppAccount(ChannelAccount):
    """Settings of one business number."""

    not_shared: ClassVar[tuple[str, ...]] = ("name", "phone_number_id")
    login: ClassVar[tuple[tuple[str, str], ...]] = (
        ("accessToken", "Access token of a system user with whatsapp_business_messaging"),
        ("phoneNumberId", "Phone number ID of the app's page API Setup, which is no phone number"),
        ("appSecret", "App secret of the page App settings, Basic"),
        ("verifyToken", "Verify token, a text of your own of at least 16 characters"),
    )

    phone_number_id: str = Field(default="", max_length=32)
    """Id that Meta gave the number, by digits."""
    access_token: SecretStr | None = None
    """Token of a system user; it sends, and fetches files."""
    app_secret: SecretStr | None = None
    """Secret of the app, with which Meta signs each request to the gateway."""
    verify_token: SecretStr | None = None
    """Text that Meta repeats when the address of the gateway is registered."""
    api_root: Root = HttpUrl("https://graph.facebook.com/v24.0")
    """Address of the Graph API with its version."""
    media_max_mb: int = Field(default=10, ge=0, le=10)
    """Largest file that is accepted, in MB; 0 accepts none."""

    @field_validator("phone_number_id")
    @classmethod
    def _is_an_id(cls, value: str) -> str:
        if value and not (value.isascii() and value.isdecimal()):
            raise ValueError("it is the Phone number ID of Meta, which has digits only")
        return value

    @field_validator("verify_token")
    @classmethod
    def _cannot_be_guessed(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < MIN_SECRET_CHARS:
            raise ValueError(f"it has at least {MIN_SECRET_CHARS} characters")
        return value

    @property
    def is_configured(self) -> bool:
        """Returns whether there are the id, the token and both secrets."""
        secrets = (self.access_token, self.app_secret, self.verify_token)
        return bool(self.phone_number_id) and all(map(revealed, secrets))


class WhatsAppConfig(WhatsAppAccount, ChannelConfig):
    """Business numbers on WhatsApp."""

    accounts: Mapping[AccountName, WhatsAppAccount] = Field(default_factory=dict, max_length=64)
    """Further numbers by name; they share the secrets of the app unless they have their own."""
