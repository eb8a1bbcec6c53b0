"""Asks a gateway's process whether it is ready."""

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import anyio.to_thread

from skerry.testing.gateway import GatewayProcess


async def ready(gateway: GatewayProcess) -> dict[str, Any]:
    """Returns the response of `/readyz`, also a failed one."""

    def ask() -> dict[str, Any]:
        try:
            with urlopen(f"{gateway.url}/readyz") as answer:  # noqa: S310 - of the test's own gateway
                return dict(json.load(answer))
        except HTTPError as error:
            return dict(json.load(error))

    return await anyio.to_thread.run_sync(ask)
