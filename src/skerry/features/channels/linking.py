"""Links an account with a phone by a QR code; the configuration stores the phone's number."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pydantic import ValidationError

from skerry.infra.channels import Platform
from skerry.model.errors import CredentialError


class Link(Protocol):
    """An attempt to link."""

    uri: str

    async def number(self) -> str:
        """Returns the number of the account after the phone has agreed."""
        ...


async def linked(
    platform: Platform, settings: Any, fields: Mapping[str, str], show: Callable[[str], None]
) -> dict[str, str]:
    """Links an account; `show` receives the address for the phone. Returns the keys to set.

    Raises:
        CredentialError: the platform has no such login, or the phone did not agree.
    """
    if "qr" not in platform.section.login_elsewhere:
        raise CredentialError(
            f"{platform.label} cannot be linked by a code.",
            f"Enter its credentials: skerry channels login {platform.name}",
        )
    present = settings.model_dump(by_alias=True, exclude_unset=True) if settings else {}
    try:
        account = platform.section.model_validate(present | dict(fields))
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        raise CredentialError(f"{key}: {fault['msg']}.", "Correct it.") from error
    failure: type[Exception] = platform.load("linking:LinkError")
    try:
        async with platform.load("linking:linking")(account) as attempt:
            link: Link = attempt
            show(link.uri)
            key, _ = platform.section.login[0]
            return {key: await link.number()}
    except failure as error:
        remedy = "Check that the program at apiRoot runs, and start the login again."
        raise CredentialError(str(error), remedy) from error
