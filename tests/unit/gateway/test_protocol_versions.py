"""What versions 3 and 4 of the protocol say differently, over real sockets."""

from typing import Any

import pytest

from skerry.gateway.frames import ErrorCode, ErrorShape
from skerry.gateway.protocol_versions import VERSIONS
from skerry.model.event import RunStarted
from skerry.model.ids import RunId
from tests.support.gateway import Rig
from tests.support.wire import Wire, connected, request

RUN = RunId("k1")
ASKED = {"message": "x", "idempotencyKey": RUN}


def speaking(protocol: int, **changes: Any) -> dict[str, Any]:
    return {"minProtocol": protocol, "maxProtocol": protocol, **changes}


async def test_hello_has_the_keys_of_its_version(rig: Rig) -> None:
    async with connected(rig.url, **speaking(3)) as old, connected(rig.url) as new:
        assert old.hello.keys() == {
            "type",
            "protocol",
            "server",
            "features",
            "snapshot",
            "policy",
        }
        assert old.hello["server"].keys() == {"version", "host", "connId"}
        assert old.hello["features"].keys() == {"methods", "events"}
        assert new.hello.keys() == old.hello.keys() | {"auth"}
        assert new.hello["server"].keys() == {"version", "connId"}
        assert new.hello["features"].keys() == {"methods", "events", "capabilities"}


def test_version_3_is_told_of_its_device_token_and_of_no_attachments() -> None:
    policy = {"maxPayload": 1, "maxBufferedBytes": 2, "tickIntervalMs": 3}
    hello = {
        "server": {},
        "features": {"methods": [], "events": []},
        "auth": {"deviceToken": "t"},
        "policy": {**policy, "attachments": {}},
    }
    payload = VERSIONS[3].hello(hello)
    assert (payload["auth"], payload["policy"]) == ({"deviceToken": "t"}, policy)


@pytest.mark.parametrize("method", ["no.such.method", "models.configure", "connect"])
async def test_version_3_knows_no_forbidden(rig: Rig, method: str) -> None:
    async with connected(rig.url, **speaking(3, scopes=["operator.read"])) as wire:
        error = (await wire.ask(method, {}))["error"]
    assert error == {"code": "INVALID_REQUEST", "message": "missing scope: operator.admin"}


def test_version_3_keeps_the_details_of_other_errors() -> None:
    shape = ErrorShape(ErrorCode.UNAVAILABLE, "node not connected", {"code": "NOT_CONNECTED"})
    assert VERSIONS[3].error(shape) is shape


@pytest.mark.parametrize("protocol", [3, 4])
async def test_bad_frames_and_parameters_are_refused_alike(rig: Rig, protocol: int) -> None:
    async with connected(rig.url, **speaking(protocol)) as wire:
        unknown = (await wire.ask("no.such.method"))["error"]
        assert unknown["message"] == "unknown method: no.such.method"
        bad = (await wire.ask("agent", {}))["error"]
        assert bad["message"].startswith("invalid agent params: must have required property 'mess")
        await wire.send({"type": "req", "id": "7"})
        error = (await wire.response("7"))["error"]
        assert error == {
            "code": "INVALID_REQUEST",
            "message": "invalid request frame: must have required property 'method'",
        }


async def start(wire: Wire, name: str) -> Any:
    await wire.send(request("agent", ASKED, id=name))
    return (await wire.response(name))["payload"]


async def test_version_3_says_less_of_an_accepted_run(rig: Rig) -> None:
    async with connected(rig.url, **speaking(3)) as wire:
        accepted = await start(wire, "one")
    assert accepted == {"runId": RUN, "status": "accepted", "acceptedAt": 1_000}


async def test_a_repeated_key_of_version_3_gets_both_responses_and_runs_once(rig: Rig) -> None:
    async with connected(rig.url, **speaking(3)) as wire:
        first, second = await start(wire, "one"), await start(wire, "two")
        assert first == second
        rig.dispatcher.tell(RUN, RunStarted(1))
        rig.dispatcher.end(RUN, payloads=("a",))
        ended = [(await wire.response(name))["payload"] for name in ("one", "two")]
        assert ended[0] == ended[1]
        assert ended[0]["status"] == "ok"
        assert await start(wire, "three") == ended[0]
        starts = [frame for frame in wire.frames if frame.get("event") == "agent"]
        phases = [row["payload"]["data"]["phase"] for row in starts]
    assert phases == ["start", "end"]
    assert len(rig.dispatcher.runs) == 1


async def test_both_versions_receive_the_same_run_each_in_its_form(rig: Rig) -> None:
    async with connected(rig.url, **speaking(3)) as old, connected(rig.url) as new:
        rig.dispatcher.reply = str.upper
        await start(new, "one")
        chats = [(await wire.event("chat", state="final"))["payload"] for wire in (old, new)]
        sent = [
            [frame["seq"] for frame in wire.frames if "seq" in frame and frame["type"] == "event"]
            for wire in (old, new)
        ]
    assert [chat["message"]["content"][0]["text"] for chat in chats] == ["X", "X"]
    assert ["agentId" in chat for chat in chats] == [False, True]
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in sent)


@pytest.mark.parametrize("protocol", [3, 4])
async def test_a_reply_that_reached_the_model_s_limit_says_so(rig: Rig, protocol: int) -> None:
    async with connected(rig.url, **speaking(protocol)) as wire:
        await wire.call("agent", ASKED)
        rig.dispatcher.end(RUN, payloads=("as far as",), cut_off=True)
        final = await wire.event("chat", state="final")
        assert final["payload"]["stopReason"] == "length"


@pytest.mark.parametrize("protocol", [3, 4])
async def test_a_message_that_entered_another_run_names_it(rig: Rig, protocol: int) -> None:
    async with connected(rig.url, **speaking(protocol)) as wire:
        await wire.call("agent", ASKED)
        rig.dispatcher.tell(RUN, RunStarted(1, RunId("host")))
        rig.dispatcher.end(RUN, payloads=(), joined=RunId("host"))
        await wire.event("chat", state="final")
        datas = [frame["payload"]["data"] for frame in wire.frames if frame.get("event") == "agent"]
    phases = [(row["phase"], row["joined"]) for row in datas if "phase" in row]
    assert phases == [("start", "host"), ("end", "host")]
    assert not [frame for frame in wire.frames if frame.get("payload", {}).get("state") == "status"]
