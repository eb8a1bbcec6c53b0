"""Streams of events: read event by event, over every cut of the bytes, and ended when silent."""

import anyio
import pytest

from skerry.sdk import channel_events
from skerry.sdk.channel_events import AccountEvents, EventsEndedError
from skerry.sdk.channel_host import AccountHttp
from skerry.testing.http_server import ServedRequest, ServedResponse, Write, serve

TEXT = (
    'id:1\nevent:receive\ndata:{"a": "é"}\n\n:\ndata: one\r\ndata:two\r\n\r\n'
    "event:none\n\ndata:end\n\n"
)


async def test_events_are_read_whole_however_their_bytes_are_cut() -> None:
    async def body(write: Write) -> None:
        for byte in TEXT.encode():
            await write(bytes([byte]))

    async def handle(_: ServedRequest) -> ServedResponse:
        return ServedResponse(stream=body)

    async with serve(handle) as root:
        events = await AccountEvents.open(AccountHttp([root]), f"{root}/events")
        read = [await events.receive(60) for _ in range(3)]
        assert read == ['{"a": "é"}', "one\ntwo", "end"]
        with pytest.raises(EventsEndedError):
            await events.receive(60)
        events.close()


async def test_a_stream_that_is_silent_counts_as_broken() -> None:
    async def body(write: Write) -> None:
        await write(b"data:1\n\ndata:2\n\ndata:3\n\ndata:4")
        await anyio.sleep_forever()

    async def handle(_: ServedRequest) -> ServedResponse:
        return ServedResponse(stream=body)

    async with serve(handle) as root:
        events = await AccountEvents.open(AccountHttp([root]), f"{root}/events")
        assert await events.receive(60) == "1"
        assert [await events.receive(60) for _ in range(2)] == ["2", "3"]
        with pytest.raises(EventsEndedError, match="silent"):
            await events.receive(0.01)
        events.close()


async def test_other_answers_other_hosts_and_endless_events_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(write: Write) -> None:
        while True:
            await write(b"data:" + b"x" * 100)

    async def handle(request: ServedRequest) -> ServedResponse:
        if request.path == "/gone":
            return ServedResponse(b"", 404)
        return ServedResponse(stream=body)

    monkeypatch.setattr(channel_events, "_MAX_EVENT", 1000)
    async with serve(handle) as root:
        http = AccountHttp([root])
        with pytest.raises(EventsEndedError) as caught:
            await AccountEvents.open(http, f"{root}/gone")
        assert caught.value.status == 404
        with pytest.raises(EventsEndedError, match="cannot be reached"):
            await AccountEvents.open(http, "http://127.0.0.2:9/events")
        events = await AccountEvents.open(http, f"{root}/events")
        with pytest.raises(EventsEndedError, match="larger"):
            await events.receive(60)
        events.close()


async def test_what_is_on_its_way_is_drained_before_a_stream_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body(write: Write) -> None:
        await write(b"data:1\n\ndata:2\n\n")
        await write(b"data:3\n\ndata:4")
        await anyio.sleep_forever()

    async def handle(_: ServedRequest) -> ServedResponse:
        return ServedResponse(stream=body)

    monkeypatch.setattr(channel_events, "DRAIN_SECONDS", 0.5)
    async with serve(handle) as root:
        events = await AccountEvents.open(AccountHttp([root]), f"{root}/events")
        assert await events.receive(60) == "1"
        assert await events.drain() == ["2", "3"]
        events.close()
