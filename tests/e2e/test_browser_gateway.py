"""The tool `browser` in a whole gateway: a run reads a page, is asked about input, and it ends."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest

from skerry.hooks.hooks import Hooks
from tests.e2e.test_approvals import begin, final
from tests.support.browsing import page, processes, ref, until_none
from tests.support.net_lab import PUBLIC, RecordedRequest, lab, reply
from tests.support.whole import whole_gateway
from tests.support.wire import Wire, connected

pytestmark = pytest.mark.full("Chromium")

FORM = "<form action=/sent><input name=n aria-label=Name><button>Send</button></form>"


def call(action: str, **arguments: Any) -> str:
    return f"call browser {json.dumps({'action': action, **arguments})}"


@asynccontextmanager
async def site() -> AsyncIterator[tuple[str, list[str]]]:
    """Serves a page on this machine; yields its host with the port, and the requests."""
    async with lab() as world:

        async def answer(stream: anyio.abc.ByteStream, asked: RecordedRequest) -> None:
            await reply(page(FORM), content_type="text/html", connection="close")(stream, asked)
            await stream.aclose()

        await world.serve(PUBLIC, 80, answer)
        requested: list[str] = []
        host = f"127.0.0.1:{world.ports[PUBLIC, 80]}"
        yield host, requested
        requested += [asked.path for asked in world.asked if asked.path != "/favicon.ico"]


def results(wire: Wire) -> list[str]:
    """Returns the results of tools so far, as JSON."""
    return [
        json.dumps(frame["payload"]["data"].get("result"))
        for frame in wire.frames
        if frame.get("event") == "agent"
        and frame["payload"].get("stream") == "tool"
        and frame["payload"]["data"].get("phase") == "result"
    ]


@pytest.mark.abuse(100)
async def test_a_run_reads_freely_and_is_asked_before_it_types(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with site() as (host, requested):
        config = {
            "browser": {"enabled": True, "noSandbox": os.geteuid() == 0},
            "tools": {"web": {"fetch": {"ssrfPolicy": {"allowedHostnames": [host]}}}},
        }
        environ = {"PATH": os.environ["PATH"]}
        async with (
            whole_gateway(home, Hooks(), config=config, environ=environ) as (_, address),
            connected(address.url, auth={"token": address.token}, caps=["tool-events"]) as wire,
        ):
            with anyio.fail_after(120):
                await begin(wire, call("open", url=f"http://{host}/"), "r1")
                text = await final(wire, runId="r1")
                assert "Name" in text
                field = ref(json.loads(results(wire)[-1])["content"][0]["text"], "textbox")
                await begin(wire, call("open", url="http://127.0.0.1:8080/"), "r2")
                assert "address-loopback" in await final(wire, runId="r2")
                await begin(wire, call("act", kind="fill", ref=field, text="Ann"), "r3")
                asked = (await wire.event("exec.approval.requested"))["payload"]
                assert asked["request"]["rule"] == "tainted-send"
                assert f"fill 'Ann' textbox 'Name' [{field}] on http://{host}/" in json.dumps(
                    asked["request"], ensure_ascii=False
                )
                decision = {"id": asked["id"], "decision": "allow-once"}
                await wire.call("exec.approval.resolve", decision)
                assert "Done: fill." in await final(wire, runId="r3")
                await begin(wire, call("snapshot"), "r4")
                assert "Ann" in await final(wire, runId="r4")
            assert processes(home)
        await until_none(home)
        assert not (home / "browser" / "main").exists()
    assert requested == ["/"]
