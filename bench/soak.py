"""RSS and CPU a message over many minutes of traffic: conversations that grow and are compacted.

`python -m bench.soak --minutes 20`, or `make bench ONLY=soak MINUTES=20`, measures for 20 minutes
after a warm-up of 6,400 messages, in which every conversation is compacted, and four minutes. It
stops by itself.
"""

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio

from bench.measure import Driver, Gateway, driver, figure, gateway
from skerry.testing.gateway import model_config
from skerry.testing.model_server import HttpStep, StubModelServer, echo_chat

MINUTES: Final = 20
MAX_MINUTES: Final = 240
WARM_MESSAGES: Final = 6400
"""Messages before the measurement, at full speed. Every conversation has then been compacted, so
that each message searches the memory, and has more than 500 entries, from which on a conversation
is indexed again after a tenth of it: until then, the cost of a message grows with its length."""
WARM_SECONDS: Final = 900
"""Limit on the messages of the warm-up."""
SETTLE_MINUTES: Final = 4
"""Minutes at the even pace before the measurement, until the index reads long conversations in
rounds."""
SESSIONS: Final = 20
RATE: Final = 6.0
"""Messages a second, of all conversations together."""
TOOLS: Final = 20
"""Every n-th message of a conversation calls a tool."""
READS: Final = 10
"""After each n messages a client reads a conversation, as a page does."""
MARKS: Final = 40
"""After each n messages the reference work is measured."""
STRINGS: Final = 150_000
"""Strings of the reference work, 10 MB: other processes that use the cache slow it as they slow a
gateway. A loop over less data took 30 to 35 ms whether a message took 19 or 28."""
WINDOW: Final = 32_000
SHORT: Final = "The pilot waits for the tide; the boats lie behind the island until noon."
"""Answer of the model to a tool's result, and as a summary."""
COMMON: Final = (
    "the of and to in that it was for on with as at by he she they we you not this had from but"
    " harbour pilot wrote north wind spring tide close narrow channel before noon boat waits behind"
    " island until water falls light comes back"
)
RARE: Final = 4000
"""Number of made-up words after the common ones. With few words every passage would contain every
word, and each search would have to rank all messages."""
THIRDS: Final = 3
"""The first third of the minutes is compared with the last one."""


@dataclass(frozen=True, slots=True)
class Minute:
    """Figures of one minute of traffic."""

    messages: int
    cpu_ms: float
    """CPU of all processes, a message."""
    same_ms: float
    """CPU of the reference work meanwhile, in ms; grows when other processes share the machine."""
    rss: float
    """RSS of the gateway's own process at the end of the minute, in MB."""
    anonymous: float
    """Part of it that is not a mapped file."""
    together: float
    """RSS of all processes, in MB."""
    files: int
    """Open file descriptors."""


class Prose:
    """Text as people write it: few words often, most of them rarely, as in a language."""

    def __init__(self) -> None:
        self._chance = random.Random(1)  # noqa: S311 - the same words each time
        parts = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]
        rare = (
            "".join(self._chance.choices(parts, k=self._chance.randint(2, 4))) for _ in range(RARE)
        )
        self._words = list(dict.fromkeys([*COMMON.split(), *rare]))
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._words))))

    def words(self, count: int) -> str:
        """Returns `count` words."""
        return " ".join(self._chance.choices(self._words, cum_weights=self._weights, k=count))

    def text(self, number: int) -> str:
        """Returns a message: mostly 20 to 90 words, now and then a tool's call."""
        if number % TOOLS == TOOLS - 1:
            return f'call session_search {{"query": "{self.words(4)}"}}'
        return f"{self.words(self._chance.randint(20, 90))} ({number})."


def reply(body: dict[str, Any]) -> Sequence[HttpStep]:
    """Returns the echo of a person's message, or a short text for other requests."""
    is_talk = body.get("tools") and body["messages"][-1]["role"] == "user"
    return echo_chat(body) if is_talk else [SHORT]


class SameWork:
    """Reference work, whose CPU measures the load by other processes."""

    def __init__(self) -> None:
        self._strings = [f"thing {number}" for number in range(STRINGS)]
        random.Random(2).shuffle(self._strings)  # noqa: S311 - the same order each time

    def took(self) -> float:
        """Runs the work; returns its CPU ms."""
        begin = time.process_time()
        texts: dict[str, str] = {}
        for text in self._strings:
            texts[text[-3:]] = text
        return (time.process_time() - begin) * 1e3


class Traffic:
    """Sends messages to one conversation after the other, at an even pace."""

    def __init__(self, client: Driver, reader: Driver) -> None:
        self.sent = 0
        self.marks: list[float] = []
        """CPU of the reference work since the beginning of the minute."""
        self._client = client
        self._reader = reader
        self._prose = Prose()
        self._same = SameWork()

    async def minute(self, rate: float = RATE, limit: float = math.inf) -> int:
        """Sends messages for a minute, `rate` a second, until there are `limit` in all.

        Returns the number of answered messages.
        """
        begin, end, before = time.perf_counter(), time.perf_counter() + 60, self.sent
        self.marks[:] = [self._same.took()]
        while time.perf_counter() < end and self.sent < limit:
            session = f"soak-{self.sent % SESSIONS}"
            await self._client.say(session, self._prose.text(self.sent // SESSIONS))
            await self._client.final()
            self.sent += 1
            if self.sent % READS == 0:
                params = {"sessionKey": session, "limit": 120}
                await self._reader.answer("chat.history", params)
            if self.sent % MARKS == 0:
                self.marks.append(self._same.took())
            pause = begin + (self.sent - before) / rate - time.perf_counter()
            await anyio.sleep(max(pause, 0))
        return self.sent - before


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def on_disk(folder: str) -> float:
    """Returns the size of the files, in MB."""
    return sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()) / 1e6


def status(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:"))) / 1e3


async def measured(
    running: Gateway, traffic: Traffic, rate: float = RATE, limit: float = math.inf
) -> Minute:
    before = running.tree.cpu()
    messages = await traffic.minute(rate, limit)
    used = running.tree.cpu() - before
    pid = running.tree.pid
    return Minute(
        messages,
        used / max(messages, 1) * 1e3,
        statistics.mean(traffic.marks),
        status(pid, "VmRSS"),
        status(pid, "RssAnon"),
        running.tree.rss(),
        open_files(pid),
    )


def report_minute(name: str, minute: Minute) -> None:
    """Prints the figures of a minute to standard error."""
    print(
        f"{name}: {minute.messages} messages, CPU {minute.cpu_ms:.2f} ms a message beside"
        f" {minute.same_ms:.0f} ms for the same work ({minute.cpu_ms / minute.same_ms:.3f} of it),"
        f" RSS {minute.rss:.1f} MB ({minute.anonymous:.1f} anonymous; all processes"
        f" {minute.together:.1f}), {minute.files} files open",
        file=sys.stderr,
        flush=True,
    )


async def main(minutes: int) -> None:
    model = StubModelServer(reply)
    model.keep_requests = False
    with TemporaryDirectory(prefix="skerry-") as home:
        async with model:
            config = model_config(model.base_url)
            config["models"]["providers"]["test"]["models"][0]["contextWindow"] = WINDOW
            config["agents"]["defaults"]["limits"] = {"day": {"modelCalls": 0, "toolCalls": 0}}
            with gateway(Path(home), config) as running:
                async with driver(running) as client, driver(running) as reader:
                    traffic = Traffic(client, reader)
                    warm = []
                    with anyio.fail_after(WARM_SECONDS):
                        while traffic.sent < WARM_MESSAGES:
                            now = await measured(running, traffic, math.inf, WARM_MESSAGES)
                            warm.append(now)
                            report_minute(f"warm-up {len(warm)}", now)
                    for _ in range(SETTLE_MINUTES):
                        warm.append(await measured(running, traffic))
                        report_minute(f"warm-up {len(warm)}", warm[-1])
                    measures = []
                    for number in range(minutes):
                        measures.append(await measured(running, traffic))
                        report_minute(f"minute {number + 1}", measures[-1])
                    store = on_disk(home)
    ends = minutes // THIRDS or 1
    first, last = measures[:ends], measures[-ends:]
    sent = sum(minute.messages for minute in measures)
    compare = [
        [statistics.mean(getattr(minute, name) for minute in part) for part in (first, last)]
        for name in ("rss", "together", "cpu_ms", "same_ms")
    ]
    (rss, rss_end), (together, together_end), (cpu, cpu_end), (same, same_end) = compare
    figure(
        f"RSS of the last {ends} of {minutes} minutes, MB",
        "",
        f"{rss_end:.1f}",
        f"the first {ends}: {rss:.1f}; after one minute of the warm-up {warm[0].rss:.1f};"
        f" all processes {together:.1f} and {together_end:.1f}; {sent} messages in {SESSIONS}"
        f" conversations; files open {measures[0].files} and {measures[-1].files};"
        f" on disk {store:.0f} MB",
    )
    figure(
        f"CPU a message in the last {ends} minutes, ms",
        "",
        f"{cpu_end:.2f}",
        f"the first {ends}: {cpu:.2f}; one of {TOOLS} searches the conversations, after {READS} a"
        " page reads one; in the first minute of the warm-up"
        f" {warm[0].cpu_ms:.2f}",
    )
    figure(
        f"the same in the time of the same work, last {ends} minutes",
        "",
        f"{cpu_end / same_end:.3f}",
        f"the first {ends}: {cpu / same:.3f}; the same work took {same:.0f} and {same_end:.0f} ms",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=int, default=MINUTES, metavar="N")
    anyio.run(main, parser.parse_args().minutes, backend_options={"use_uvloop": True})
