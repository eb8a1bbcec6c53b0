"""Reads the usage from the running gateway, or from the database without one."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from typing import Any

from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.load import load_good
from skerry.config.root import Config
from skerry.features.usage.methods import counted
from skerry.infra import sqlite
from skerry.infra.clock import SystemClock, day, host_zone
from skerry.model.errors import GatewayUnreachableError, StoreFailedError
from skerry.store import DATABASE, Reader, usage
from skerry.store.usage import UsageGroup


async def report(
    environ: Mapping[str, str],
    params: dict[str, Any],
    *,
    url: str | None = None,
    token: str | None = None,
) -> tuple[dict[str, Any], bool]:
    """Returns the answer of `usage.report` to `params`, and true when it is from a running gateway.

    Raises:
        ConfigError: the configuration is not valid.
        ClientError: the named gateway does not respond, or does not admit this client.
        StateError: no gateway is running, and the database cannot be read.
    """
    address = find(environ, url=url, token=token)
    try:
        async with GatewayClient(address, scopes=("operator.read",)) as client:
            answer: dict[str, Any] = await client.request("usage.report", params)
            return answer, True
    except GatewayUnreachableError:
        if url is not None:
            raise
    return _read(load_good(environ, fetch=False).config, params), False


def _read(config: Config, params: Mapping[str, Any]) -> dict[str, Any]:
    path = config.state_dir / DATABASE
    zone, now = config.agents.defaults.user_timezone, SystemClock().now_ms()
    last = day(now, zone)
    first = last - timedelta(days=params["days"] - 1)
    by = UsageGroup(params["by"])
    rows: dict[str, usage.Sums] = {}
    if path.exists():
        try:
            with closing(sqlite.connect(path, read_only=True)) as connection:
                agent = params.get("agentId")
                rows = usage.grouped(Reader(connection), by, str(first), str(last), agent)
        except sqlite3.Error as error:
            raise _unread(error) from error
    return {
        "updatedAt": now,
        "startDate": str(first),
        "endDate": str(last),
        "timeZone": zone or host_zone(),
        "by": by.value,
        "rows": [{"name": name, **counted(sums)} for name, sums in rows.items()],
        "totals": counted(usage.total(rows.values())),
        "budgets": [],
    }


def _unread(error: sqlite3.Error) -> StoreFailedError:
    unread = StoreFailedError(f"The usage cannot be read: {error}.")
    unread.remedy = "Start the gateway, which migrates the database: skerry gateway run."
    return unread
