"""Several conversations at once, each in another queue mode, and their invariants after kills.

Which messages share a turn is asked of the store, for nobody else knows it. Whether, how often and
in which order they were answered is counted from what the platform received.
"""

import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import msgspec

from skerry.model.message import AssistantMessage, ToolCall, UserMessage, open_calls
from skerry.runtime.finalize import INTERRUPTED
from skerry.store import DATABASE, Reader, open_store, outbox, runs, session_listing, sessions
from skerry.store.session_listing import SessionFilter
from skerry.testing.channel import DeliveredMessage, FakePlatform
from skerry.testing.model_server import Cut, HttpStep, StatusReply
from tests.support.chaos import Written, mirror_faults

MODES: Final = {"ann": "collect", "ben": "steer", "cat": "followup", "dan": "interrupt"}
RECALLED: Final = re.compile(r"<(recalled-memory id=.+?)>.*?</\1>", re.DOTALL)
"""What the memory puts before a question: somebody said it once, nobody asks it now."""
NOTICES: Final = (INTERRUPTED, "⚠️ I could not answer: ")
ASKED: Final = re.compile(r"\b(please|look) (m\d+)\b")
ENDED: Final = re.compile(r"That is all for (m\d+(?:, m\d+)*)\.")
CHUNKS: Final = {
    "blockStreamingDefault": "on",
    "blockStreamingChunk": {"minChars": 30, "maxChars": 200, "breakPreference": "sentence"},
    "blockStreamingCoalesce": {"idleMs": 0},
    "compaction": {"keepRecentTokens": 60},
}


def config(base_url: str) -> dict[str, Any]:
    """Returns a configuration with two models, everything of the mix switched on."""
    models = [{"id": name} for name in ("frail", "firm")]
    provider = {"baseUrl": base_url, "apiKey": "a-key-of-the-mix", "models": models}
    model = {"primary": "test/frail", "fallbacks": ["test/firm"]}
    return {
        "models": {"providers": {"test": provider}},
        "agents": {"defaults": {"model": model, **CHUNKS}},
        "session": {"dmScope": "per-channel-peer"},
        "commands": {"ownerAllowFrom": [f"memory:{peer}" for peer in MODES]},
        "messages": {"queue": {"debounceMs": 50, "cap": 1000}},
    }


@dataclass
class Mind:
    """The model of the mix: names the message that it answers, reads files, and fails at `rate`."""

    dice: Random
    rate: float = 0.15
    down: bool = False
    """Whether the first model refuses every request."""
    failed: int = 0
    refused: int = 0

    def __call__(self, body: dict[str, Any]) -> Sequence[HttpStep]:
        """Returns the steps of one reply."""
        if not body.get("tools"):
            return ["Much was said before."]  # the summary of a compaction
        if body["model"] == "frail" and (broken := self._failure()) is not None:
            return broken
        messages = body["messages"]
        params = dict[str, str]()
        for message in reversed(messages):
            if message["role"] == "assistant" and ENDED.search(str(message.get("content"))):
                break
            if message["role"] == "user":
                text = RECALLED.sub("", str(message["content"]))
                words = {name: word for word, name in ASKED.findall(text)}
                params = words | params
        if not params:
            return ["NO_REPLY"]
        if messages[-1]["role"] == "user" and "look" in params.values():
            return ["Looking into it.", ToolCall(f"call_{len(messages)}", *_look(list(params)))]
        names = ", ".join(params)
        return [f"Here is the answer to {names}. It takes two sentences. That is all for {names}."]

    def _failure(self) -> Sequence[HttpStep] | None:
        """Returns the failure of the first model this time; None if it succeeds."""
        if self.down:
            self.refused += 1
            return [StatusReply(401)]
        if self.dice.random() >= self.rate:
            return None
        self.failed += 1
        empty: Sequence[HttpStep] = []
        cut: Sequence[HttpStep] = ["Here is ", Cut(connection=True)]
        return self.dice.choice([[StatusReply(503)], [StatusReply(429)], empty, cut])


def _look(names: list[str]) -> tuple[str, dict[str, str]]:
    """Returns the reading tool and its arguments; every second call has an effect."""
    if int(names[-1][1:]) % 2:
        return "read", {"path": "a"}
    return "write", {"path": "seen.txt", "content": names[-1]}


async def people(platform: FakePlatform, dice: Random) -> None:
    """Lets people write, whether somebody listens or not."""
    for peer, mode in MODES.items():
        platform.say(f"/queue {mode}", peer=peer, message_id=f"queue-{peer}")
    for number in count(1):
        text = f"{dice.choice(('please', 'please', 'look'))} m{number}"
        if dice.random() < 0.1:
            text = dice.choice(("/new", "/reset", "/resume", "/compact"))
        platform.say(text, peer=dice.choice(list(MODES)), message_id=f"m{number}")
        await anyio.sleep(dice.uniform(0.1, 0.6))


@dataclass(frozen=True, slots=True)
class Turn:
    """What the store says of a message: who answered for it, and whether another stopped that."""

    host: str
    run_id: str
    superseded: bool


def turns(home: Path) -> dict[str, Turn]:
    """Returns the turn of every message that was taken."""
    query = (
        "SELECT message_id, run.run_id, coalesce(host, run.run_id), result"
        " FROM inbound JOIN run USING (run_id)"
    )
    with sqlite3.connect(home / DATABASE) as connection:
        rows = connection.execute(query).fetchall()
    messages = {run_id: message for message, run_id, _, _ in rows}
    found = {}
    for message, run_id, host, result in rows:
        by = msgspec.json.decode(result).get("abortedBy") if result else None
        found[message] = Turn(messages.get(host, host), run_id, by == "interrupt")
    return found


def faults(
    written: Written, received: Sequence[DeliveredMessage], taken: dict[str, Turn]
) -> list[str]:
    """Returns the faults of the log, each beginning with the name of the promise."""
    replies: dict[str, list[DeliveredMessage]] = defaultdict(list)
    for one in received:
        replies[one.in_reply_to].append(one)
    peers = {line["id"]: line["peer"] for line in written}
    wrong = [
        f"doubled: {n}" for n, c in Counter(message.nonce for message in received).items() if c > 1
    ]
    wrong += [f"strange: {name} was never written" for name in replies if name not in peers]
    answered: Counter[str] = Counter()
    for host, reply in replies.items():
        wrong += _torn(host, reply)
        named = [n for text in ENDED.findall(_joined(reply)) for n in text.split(", ")]
        answered.update(named)
        wrong += [
            f"mixed: {name} of {peers.get(name)} in a reply to {peers.get(host)}"
            for name in named
            if peers.get(name) != peers.get(host)
        ]
    for line in written:
        wrong += _end(line, taken.get(line["id"]), replies, answered[line["id"]])
    for peer in MODES:
        names = [row["id"] for row in written if row["peer"] == peer and ASKED.match(row["text"])]
        wrong += _order(
            names, [message.in_reply_to for message in received if message.peer == peer]
        )
    return wrong


def _joined(reply: Sequence[DeliveredMessage]) -> str:
    return " ".join(" ".join(message.text for message in reply).split())


def _torn(host: str, reply: list[DeliveredMessage]) -> list[str]:
    places = [message.nonce.split("/") for message in reply]
    if len({run for run, _, _ in places}) > 1:
        return [f"twice: {host} has several runs"]
    blocks = [block for block, _ in groupby(int(block) for _, block, _ in places)]
    if blocks != list(range(len(blocks))):
        return [f"torn: the blocks of {host} came as {blocks}"]
    notices = sum(message.text.startswith(NOTICES) for message in reply)
    return [f"twice: {host} was announced {notices} times"] if notices > 1 else []


def _end(
    line: dict[str, Any], turn: Turn | None, replies: dict[str, list[DeliveredMessage]], times: int
) -> list[str]:
    name = line["id"]
    if turn is None:
        return [f"lost: {name} was never taken"]
    if times > 1:
        return [f"twice: {name} was answered {times} times"]
    reply = replies[turn.host]
    told = any(message.text.startswith(NOTICES) for message in reply)
    if not ASKED.match(line["text"]):
        told = bool(reply)  # a command; its answer is whatever it says
    return [] if times or told or turn.superseded else [f"lost: {name} was not answered"]


def _order(names: list[str], replied: list[str]) -> list[str]:
    found = [name for name, _ in groupby(one for one in replied if one in names)]
    expected = [name for name in names if name in found]
    return [] if found == expected else [f"order: {found} instead of {expected}"]


async def disagreements(
    home: Path, written: Written, received: Sequence[DeliveredMessage], taken: dict[str, Turn]
) -> list[str]:
    """Returns where the transcripts of a stopped gateway do not fit what was written and sent."""
    async with open_store(home / DATABASE) as store:
        said, found = await store.read(_said)
        found += await mirror_faults(home, store)
    counter = Counter(name for kind, text in said.values() for name in _asked(kind, text))
    for line in written:
        if ASKED.match(line["text"]) and counter[line["id"]] != 1:
            found.append(f"transcript: {line['id']} stands there {counter[line['id']]} times")
    shown: dict[str, str] = defaultdict(str)
    for (run_id, _), (kind, text) in said.items():
        if kind == "assistant":
            shown[run_id] += f"{text} "
    for host, reply in groupby(received, key=lambda message: message.in_reply_to):
        sent = ENDED.findall(_joined(list(reply)))
        kept = ENDED.findall(shown[taken[host].run_id]) if host in taken else []
        if not set(sent) <= set(kept):
            found.append(f"transcript: of {host} was sent {sent}, kept is {kept}")
    return found


def _asked(kind: str, text: str) -> list[str]:
    return [name for _, name in ASKED.findall(text)] if kind == "user" else []


def _said(reader: Reader) -> tuple[dict[tuple[str, int], tuple[str, str]], list[str]]:
    """Returns all texts by run and entry, and those that no model could read."""
    wrong = [f"open: run {run.request.run_id}" for run in runs.unfinished(reader)]
    wrong += [f"outbox: {number} are {state}" for state, number in outbox.counts(reader).items()]
    said = dict[tuple[str, int], tuple[str, str]]()
    for session in session_listing.recent(reader, SessionFilter(archived=None), limit=-1):
        entries = sessions.entries(reader, session.session_id, limit=-1)
        messages = [entry.message for entry in entries]
        wrong += [f"transcript: open call {call.id}" for call in open_calls(messages)]
        if messages and not isinstance(messages[-1], AssistantMessage):
            wrong.append(f"transcript: {session.session_id} ends without an answer")
        for entry in entries:
            if isinstance(entry.message, UserMessage | AssistantMessage):
                kind = "user" if isinstance(entry.message, UserMessage) else "assistant"
                said[entry.run_id, entry.seq] = kind, entry.message.text
    return said, wrong
