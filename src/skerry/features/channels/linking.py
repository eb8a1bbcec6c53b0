"""Link of an account with a phone: a QR code in the terminal, then the number of the account."""

import io
from collections.abc import Mapping
from typing import Any, Protocol

import anyio
import segno
from pydantic import ValidationError

from skerry.cli.failure import FailedError
from skerry.cli.render import notice
from skerry.infra.channels import Platform


class Link(Protocol):
    """An attempt to link."""

    uri: str

    async def number(self) -> str:
        """Returns the number of the account once the phone has agreed."""
        ...


def linked(platform: Platform, settings: Any, given: Mapping[str, str]) -> dict[str, str]:
    """Links an account; returns the keys to set.

    Raises:
        FailedError: the platform has no such login, or nobody agreed.
    """
    if platform.name != "signal":
        raise FailedError(
            f"{platform.label} is not linked by a code.",
            f"Enter what it asks for: skerry channels login {platform.name}",
        )
    present = settings.model_dump(by_alias=True, exclude_unset=True) if settings else {}
    try:
        account = platform.section.model_validate(present | dict(given))
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        raise FailedError(f"{key}: {fault['msg']}.", "Correct it.") from error
    return {"number": anyio.run(_number, platform, account)}


async def _number(platform: Platform, account: Any) -> str:
    failure: type[Exception] = platform.load("linking:LinkError")
    try:
        async with platform.load("linking:linking")(account) as attempt:
            link: Link = attempt
            notice(qr(link.uri))
            notice("On the phone: Signal, Settings, Linked devices, Link new device. Or open:")
            notice(link.uri)
            return await link.number()
    except failure as error:
        remedy = "Look whether the program runs at apiRoot, and start it again."
        raise FailedError(str(error), remedy) from error


def qr(text: str) -> str:
    """Returns a QR code in characters of a terminal, two squares high."""
    out = io.StringIO()
    segno.make(text, error="l", micro=False).terminal(out, compact=True)
    return out.getvalue()
