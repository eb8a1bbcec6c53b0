"""Logins that a person completes in a browser or on a phone, started in a terminal."""

import io
from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import segno

from skerry.auth.signin import printed, typed
from skerry.cli.render import notice
from skerry.features.channels.channel_signin import signed_in
from skerry.features.channels.linking import linked
from skerry.infra.channels import Platform
from skerry.infra.clock import SystemClock


def link(platform: Platform, settings: Any, fields: Mapping[str, str]) -> dict[str, str]:
    """Links an account by a code in the terminal; returns the keys to set.

    Raises:
        CredentialError: the platform has no such login, or the phone did not agree.
    """
    return anyio.run(linked, platform, settings, fields, _show_code)


def sign_in(
    platform: Platform, settings: Any, provider: str | None, fields: Mapping[str, str]
) -> dict[str, Any]:
    """Signs a person in by a browser; returns the keys to set.

    Raises:
        CredentialError: the platform has no such login, it was refused, or was not completed in
        time.
    """
    fields = {**fields, "oauth.provider": provider} if provider else fields
    show = printed(notice)
    return anyio.run(partial(signed_in, platform, settings, fields, SystemClock(), show, typed))


def _show_code(uri: str) -> None:
    notice(qr(uri))
    notice("On the phone: Signal, Settings, Linked devices, Link new device. Or open:")
    notice(uri)


def qr(text: str) -> str:
    """Returns a QR code in terminal characters, two modules per character in height."""
    out = io.StringIO()
    segno.make(text, error="l", micro=False).terminal(out, compact=True)
    return out.getvalue()
