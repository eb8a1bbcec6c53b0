"""Requests to the Bot Connector, at addresses that its activities name, and its errors."""

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, urlsplit

import msgspec

from skerry.channels.msteams.config import MsTeamsAccount
from skerry.config.channels import revealed
from skerry.infra.clock import Clock
from skerry.sdk.access_tokens import AccessToken, checked
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import AccountHttp, Fetched

SERVICES: Final = (
    "smba.trafficmanager.net",
    "smba.infra.gcc.teams.microsoft.com",
    "smba.infra.gov.teams.microsoft.us",
    "smba.infra.dod.teams.microsoft.us",
    "*.botframework.com",
)
"""Hosts of Microsoft to which answers go, with the bot's token."""
FILES: Final = ("*.sharepoint.com", "*.sharepoint.us")
"""Hosts from which files are fetched without a token: the address is enough."""
SCOPE: Final = "https://api.botframework.com/.default"
_PAUSE: Final = 10.0


class Connector:
    """One bot."""

    def __init__(self, settings: MsTeamsAccount, clock: Clock) -> None:
        self._roots = [str(root).rstrip("/") for root in settings.service_roots]
        login = str(settings.login_root).rstrip("/")
        self.http = AccountHttp(
            [login, str(settings.metadata_url), *self._roots], public_hosts=(*SERVICES, *FILES)
        )
        form = {
            "grant_type": "client_credentials",
            "client_id": settings.app_id,
            "client_secret": revealed(settings.app_password),
            "scope": SCOPE,
        }
        tenant = settings.tenant_id or "botframework.com"
        url = f"{login}/{tenant}/oauth2/v2.0/token"
        self.access = AccessToken(self.http, url, lambda: form, clock)

    def is_service(self, url: str) -> bool:
        """Returns whether the bot's token may be sent to an address."""
        return _is_below(url, self._roots) or _is_at(url, SERVICES)

    async def call(self, method: str, service: str, path: Sequence[str], body: object) -> bytes:
        """Sends a request to the conversation or activity that `path` names; returns the answer.

        Raises:
            PlatformError: there is no answer, or it reports that nothing was done.
        """
        parts = "/".join(quote(part, safe="") for part in path)
        url = f"{service.rstrip('/')}/v3/conversations/{parts}"
        if not self.is_service(url):
            raise PlatformError(
                f"{urlsplit(url).hostname} is no server of MS Teams.", is_final=True
            )
        data = msgspec.json.encode(body)
        fetched = await self.access.fetch(url, method=method, body=data)
        return checked(fetched, urlsplit(url).hostname or "", key="code", pause=_PAUSE)

    async def upload(self, url: str, data: bytes) -> Fetched | None:
        """Uploads a file in one piece; None where the address is not one of SharePoint."""
        if not _is_at(url, FILES) and not _is_below(url, self._roots):
            return None
        headers = {
            "content-type": "application/octet-stream",
            "content-range": f"bytes 0-{len(data) - 1}/{len(data)}",
        }
        # The address itself is secret; the bot's token is only for the connector.
        return await self.http.fetch(url, method="PUT", headers=headers, body=data, seconds=20.0)

    async def download(self, url: str, limit: int) -> Fetched | None:
        """Returns a file; None where its address is not one of Teams or SharePoint."""
        if self.is_service(url):
            return await self.access.fetch(url, max_bytes=limit, seconds=30.0)
        if not _is_at(url, FILES):
            return None
        return await self.http.fetch(url, max_bytes=limit, seconds=30.0)


def _is_at(url: str, hosts: Sequence[str]) -> bool:
    try:
        parts = urlsplit(url)
        is_usual = parts.port in {None, 443} and not parts.username and not parts.password
    except ValueError:
        return False
    host = parts.hostname or ""
    named = any(
        host.endswith(pattern[1:]) if pattern.startswith("*") else host == pattern
        for pattern in hosts
    )
    return parts.scheme == "https" and is_usual and named


def _is_below(url: str, roots: Sequence[str]) -> bool:
    """Returns whether an address is one of the roots, or below it."""
    return ".." not in url and any(url == root or url.startswith(f"{root}/") for root in roots)
