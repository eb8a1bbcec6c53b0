"""Conditions on a platform's log after kills, and a model whose answers name their question.

Everything here counts from what the platform received, never from our store; the store is asked
only whether it agrees.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Protocol

import anyio
import msgspec

from skerry.client.client import GatewayClient
from skerry.client.discover import GatewayAddress
from skerry.model import message
from skerry.model.message import (
    AssistantMessage,
    Message,
    ToolCall,
    UserMessage,
    is_note,
    open_calls,
)
from skerry.model.session import SessionEntry, TranscriptEntry, entry_id
from skerry.runtime.finalize import INTERRUPTED
from skerry.store import Reader, Store, open_store, outbox, runs, session_listing, sessions
from skerry.store.mirror import transcript_file
from skerry.store.session_listing import SessionFilter
from skerry.testing.channel import DeliveredMessage, FakePlatform
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model import unfenced
from skerry.testing.model_server import HttpStep, StubModelServer

SECONDS = 60.0
MAY = {"tools": {"guests": {"allow": ["read", "write"]}}}
"""What the people of the platform may have done for them."""
ONE_BY_ONE = {"messages": {"queue": {"mode": "followup", "debounceMs": 0, "cap": 1000}}}
"""Each message has its own answer, so that answers can be counted, however many wait."""
Written = list[dict[str, Any]]


def answers(body: dict[str, Any]) -> Sequence[HttpStep]:
    """Answers `m7` with `answer to m7`; `look m7` reads a file first, `write m7` writes one."""
    messages = body["messages"]
    asked = next(
        unfenced(message["content"]) for message in reversed(messages) if message["role"] == "user"
    )
    word, _, name = asked.rpartition(" ")
    if word and messages[-1]["role"] != "tool":
        tool, more = ("write", {"content": "x"}) if word == "write" else ("read", {})
        call = ToolCall(f"call_{len(messages)}", tool, {"path": "a.txt"} | more)
        return ["looking into it", call]
    return [f"answer to {name}"]


def faults(written: Written, received: Sequence[DeliveredMessage]) -> list[str]:
    """Returns the faults of the log, each beginning with the name of the promise."""
    replies: dict[str, list[DeliveredMessage]] = defaultdict(list)
    for one in received:
        replies[one.in_reply_to].append(one)
    wrong = [
        f"doubled: {nonce} came {count} times"
        for nonce, count in Counter(message.nonce for message in received).items()
        if count > 1
    ]
    ids = {line["id"] for line in written}
    wrong += [f"strange: {name} was never written" for name in replies if name not in ids]
    for name in [line["id"] for line in written]:
        wrong += _reply_faults(name, replies[name])
    for peer in {line["peer"] for line in written}:
        wrong += _order_faults(
            [line["id"] for line in written if line["peer"] == peer],
            [message.in_reply_to for message in received if message.peer == peer],
        )
    return wrong


def _reply_faults(name: str, reply: list[DeliveredMessage]) -> list[str]:
    ends = [message for message in reply if message.text in {f"answer to {name}", INTERRUPTED}]
    if not ends:
        return [f"lost: {name} was neither answered nor announced"]
    wrong = []
    if len(ends) > 1:
        wrong.append(f"twice: {name} has {len(ends)} ends")
    places = [message.nonce.split("/") for message in reply]
    if len({run for run, _, _ in places}) > 1:
        wrong.append(f"twice: {name} has several runs")
    blocks = [int(block) for _, block, _ in places]
    if blocks != list(range(len(reply))) or reply[-1] is not ends[-1]:
        wrong.append(f"torn: the parts of {name} came as {blocks}")
    return wrong


def _order_faults(written: list[str], replied: list[str]) -> list[str]:
    found = [name for name, _ in groupby(replied)]
    expected = [name for name in written if name in found]
    return [] if found == expected else [f"order: {found} instead of {expected}"]


def announced(received: Iterable[DeliveredMessage]) -> list[str]:
    """Returns the messages whose interruption was announced."""
    return [message.in_reply_to for message in received if message.text == INTERRUPTED]


async def until(happened: Callable[[], object], what: Callable[[], object] = lambda: "") -> None:
    """Waits for something that another process does."""
    with anyio.move_on_after(SECONDS):
        while not happened():  # noqa: ASYNC110 - files of another process, there is no event
            await anyio.sleep(0.01)
        return
    raise AssertionError(f"not within {SECONDS:g} s; {what()}")


async def all_ended(platform: FakePlatform) -> None:
    """Waits until every message that was written has an end, as long as another one gets its."""
    ids = {row["id"] for row in platform.inbox()}

    def missing() -> set[str]:
        ends = {f"answer to {name}" for name in ids} | {INTERRUPTED}
        return ids - {
            message.in_reply_to for message in platform.received() if message.text in ends
        }

    await until_fewer(lambda: len(missing()), lambda: f"without an end: {sorted(missing())}")


async def all_taken(platform: FakePlatform) -> None:
    """Waits until the gateway has every message that was written, as long as it takes another."""
    written = len(platform.inbox())
    await until_fewer(lambda: written - platform.acknowledged())


async def until_fewer(left: Callable[[], int], what: Callable[[], object] = lambda: "") -> None:
    """Waits until nothing is left, as long as it becomes fewer; a backlog may be of any length."""

    def fewer(than: int) -> bool:
        return left() < than

    while before := left():
        await until(partial(fewer, before), what)


@asynccontextmanager
async def rig(
    folder: Path, *first: str, arguments: Sequence[str] = (), **config: Any
) -> AsyncGenerator[tuple[GatewayProcess, FakePlatform, StubModelServer]]:
    """Runs a gateway between a platform and a model server that both outlive it."""
    platform = FakePlatform(folder / "platform")
    async with (
        StubModelServer(answers, events_per_text=4, delay=0.015) as model,
        running_gateway(
            model=model.base_url,
            home=folder / "home",
            config=ONE_BY_ONE | MAY | config,
            arguments=["--platform", str(platform.folder), *arguments],
            first=first,
        ) as gateway,
    ):
        yield gateway, platform, model


class Gateway(Protocol):
    """A gateway in a process of its own, or in this one."""

    @property
    def home(self) -> Path:
        """Its state directory."""
        ...

    @property
    def address(self) -> GatewayAddress:
        """Where clients reach it."""
        ...


async def quiet(gateway: Gateway) -> None:
    """Waits until nothing runs and nothing waits to be delivered, as long as something ends."""
    database = gateway.home / "state.sqlite"
    async with GatewayClient(gateway.address) as client:
        ended, status = -1, {}
        while (now := _ended(database)) > ended:
            ended = now
            with anyio.move_on_after(60):
                while True:
                    status = await client.request("status")
                    if status["activeRuns"] == 0 and not status["undelivered"]:
                        return
                    await anyio.sleep(0.1)
    raise AssertionError(f"for a minute nothing has ended; {status}")


def _ended(database: Path) -> int:
    with closing(sqlite3.connect(database)) as connection:
        (count,) = connection.execute(
            "SELECT (SELECT count(*) FROM run WHERE result IS NOT NULL)"
            " + (SELECT count(*) FROM outbox WHERE state = 'sent')"
        ).fetchone()
    return int(count)


# What the store must say when all is over


async def disagreements(home: Path) -> list[str]:
    """Returns the differences between the store of a stopped gateway and the platform's log."""
    async with open_store(home / "state.sqlite") as store:
        return await store.read(_store_faults) + await mirror_faults(home, store)


async def mirror_faults(home: Path, store: Store) -> list[str]:
    """Returns the transcripts whose file is not line for line what the database holds."""
    found = await store.read(_transcripts)
    wrong = []
    for session, entries in found:
        session_id = session.session_id
        lines = transcript_file(home / "agents", session).read_bytes()
        head, *rest = [msgspec.json.decode(line) for line in lines.splitlines()]
        expected = [
            {
                "id": entry_id(entry.seq),
                "parentId": entry_id(entry.parent) if entry.parent else None,
                "message": msgspec.json.decode(message.encode(entry.message)),
            }
            for entry in entries
            if is_note(entry.message) != "compaction"
        ]
        shown = [
            {key: row[key] for key in ("id", "parentId", "message")}
            for row in rest
            if row["type"] == "message"
        ]
        if head["type"] != "session" or head["id"] != session_id or shown != expected:
            wrong.append(f"mirror: {session_id} has {len(rest)} lines for {len(entries)} entries")
    return wrong


def _store_faults(reader: Reader) -> list[str]:
    wrong = [f"open: run {run.request.run_id}" for run in runs.unfinished(reader)]
    wrong += [
        f"outbox: {count} parts are {state}" for state, count in outbox.counts(reader).items()
    ]
    for session, entries in _transcripts(reader):
        wrong += transcript_faults(session.session_id, [entry.message for entry in entries])
    return wrong


def transcript_faults(name: str, messages: list[Message]) -> list[str]:
    """Returns what a model could not read: calls without results, questions without answers."""
    wrong = [f"transcript: {name} has the open call {call.id}" for call in open_calls(messages)]
    if any(
        isinstance(message, UserMessage) and isinstance(other, UserMessage)
        for message, other in pairwise(messages)
    ):
        wrong.append(f"transcript: {name} has two messages of the person in a row")
    if not messages or not isinstance(messages[-1], AssistantMessage):
        wrong.append(f"transcript: {name} does not end in an answer")
    return wrong


def _transcripts(reader: Reader) -> list[tuple[SessionEntry, list[TranscriptEntry]]]:
    """Returns every session in which something was said, archived ones too."""
    return [
        (session, sessions.entries(reader, session.session_id, limit=-1))
        for session in session_listing.recent(reader, SessionFilter(archived=None), limit=-1)
        if session.tail
    ]
