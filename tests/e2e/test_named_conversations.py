"""Names and the archive of conversations, as a newer client sets them, over a whole gateway."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.hooks.hooks import Hooks
from tests.support.asking import chat
from tests.support.whole import whole_gateway
from tests.support.wire import Wire, connected, request


async def run(wire: Wire, key: str, text: str, **params: Any) -> Mapping[str, Any]:
    """Returns the last answer to `agent`, or its refusal."""
    sent = {"sessionKey": key, "message": text, "idempotencyKey": f"{key}-{text}"} | params
    await wire.send(request("agent", sent, id=text))
    first = await wire.response(text)
    return await wire.response(text) if first["ok"] else first


async def labels(wire: Wire, **params: Any) -> dict[str, str | None]:
    sessions = (await wire.call("sessions.list", params))["sessions"]
    return {row["key"].removeprefix("agent:main:"): row.get("label") for row in sessions}


async def test_a_run_names_the_conversation_that_it_enters(tmp_path: Path) -> None:
    async with (
        whole_gateway(tmp_path / "home", Hooks()) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        assert (await run(wire, "one", "a", label="Trip"))["ok"]
        assert (await run(wire, "one", "b"))["ok"]
        assert (await run(wire, "two", "c"))["ok"]
        assert await labels(wire) == {"one": "Trip", "two": None}
        taken = await run(wire, "two", "d", label="Trip")
        assert taken["error"]["message"] == "label already in use: Trip"
        assert (await run(wire, "one", "e", label="Voyage"))["ok"]
        assert await labels(wire) == {"one": "Voyage", "two": None}


@pytest.mark.parametrize("hears", [True, False])
async def test_an_archived_conversation_comes_back_as_it_was(
    tmp_path: Path, *, hears: bool
) -> None:
    async with (
        whole_gateway(tmp_path / "home", Hooks()) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        await chat(wire, "hello", "one")
        if hears:
            await wire.call("sessions.subscribe", {})
        await wire.call("sessions.patch", {"key": "one", "archived": True})
        if hears:
            with anyio.fail_after(60):
                event = await wire.event("sessions.changed", reason="patch")
            assert event["payload"]["archived"] is True
        assert (await labels(wire), list(await labels(wire, archived=True))) == ({}, ["one"])
        await wire.call("sessions.patch", {"key": "one", "archived": False})
        await chat(wire, "again", "one")
        messages = (await wire.call("chat.history", {"sessionKey": "one"}))["messages"]
        assert [row["content"][0]["text"] for row in messages if row["role"] == "user"] == [
            "hello",
            "again",
        ]
