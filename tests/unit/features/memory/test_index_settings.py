"""The settings of the built-in memory, which take effect at once."""

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from skerry.config.check import check
from skerry.config.root import Config
from skerry.features.memory.index_keeper import Rhythm
from skerry.features.memory.index_search import Weighing
from skerry.features.memory.index_settings import (
    has_sessions,
    memory_paths,
    rhythm,
    settings,
    weighing,
)
from skerry.features.memory.memories import BuiltinMemories
from skerry.infra.clock import SystemClock
from skerry.model.errors import ConfigInvalidError
from skerry.model.ids import AgentId, SessionId, SessionKey
from skerry.model.memory import MemoryQuestion, MemorySource
from skerry.model.message import user
from skerry.store import Store, Unit, open_store, sessions
from skerry_recall.fuse import BEST, OPENCLAW

MAIN = AgentId("main")


def config(home: Path, search: dict[str, Any], **tree: Any) -> Config:
    defaults = {"memorySearch": search, **tree.pop("defaults", {})}
    parsed = {"agents": {"defaults": defaults}, **tree}
    found, _ = check(parsed, state_dir=home / "state", path=home / "skerry.json")
    return found


def test_without_a_word_all_is_as_measured_best(tmp_path: Path) -> None:
    found = config(tmp_path, {})
    assert (settings(found, MAIN).size, settings(found, MAIN).overlap) == (256, 32)
    assert weighing(found, MAIN) == Weighing()
    assert weighing(found, MAIN).profile_of(MemoryQuestion("x")) is BEST
    assert rhythm(found, MAIN) == Rhythm()
    assert has_sessions(found, MAIN)


def test_openclaw_s_words_are_understood(tmp_path: Path) -> None:
    search = {
        "sources": ["memory"],
        "chunking": {"tokens": 400, "overlap": 80},
        "sync": {
            "watchDebounceMs": 500,
            "intervalMinutes": 0,
            "sessions": {"deltaBytes": 10, "deltaMessages": 2},
        },
        "query": {
            "profile": "openclaw",
            "hybrid": {
                "vectorWeight": 0.6,
                "candidateMultiplier": 8,
                "mmr": {"enabled": True, "lambda": 0.5},
                "temporalDecay": {"enabled": True, "halfLifeDays": 7},
            },
        },
    }
    found = config(tmp_path, search, defaults={"userTimezone": "Europe/Lisbon"})
    made = settings(found, MAIN)
    assert made.made_with == "400/80 Europe/Lisbon"
    assert (made.delta_bytes, made.delta_entries) == (10, 2)
    assert not has_sessions(found, MAIN)
    assert (rhythm(found, MAIN).quiet, rhythm(found, MAIN).sync) == (0.5, None)
    assert (weighing(found, MAIN).mmr, weighing(found, MAIN).half_life) == (0.5, 7)
    profile = weighing(found, MAIN).profile_of(MemoryQuestion("x"))
    assert profile.vector_weight == 0.6
    assert profile.text_weight == pytest.approx(0.4)
    assert profile.candidates == 8
    asked = weighing(found, MAIN).profile_of(MemoryQuestion("x", profile="openclaw"))
    assert asked is OPENCLAW


def test_an_overlap_is_never_more_than_half_a_passage(tmp_path: Path) -> None:
    index_settings = settings(config(tmp_path, {"chunking": {"tokens": 32, "overlap": 300}}), MAIN)
    assert (index_settings.size, index_settings.overlap) == (32, 16)


@pytest.mark.parametrize(
    "wrong",
    [
        {"chunking": {"preset": "12/1"}},
        {"query": {"minScore": 2}},
        {"sources": ["mails"]},
        {"sync": {"sessions": {"deltaBytes": -1}}},
        {"query": {"hybrid": {"temporalDecay": {"halfLifeDays": 0}}}},
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigInvalidError):
        config(tmp_path, wrong)


def test_conversations_are_off_where_either_section_says_so(tmp_path: Path) -> None:
    off = {"qmd": {"sessions": {"enabled": False, "retentionDays": 3}}}
    found = config(tmp_path, {}, memory=off)
    assert not has_sessions(found, MAIN)
    assert settings(found, MAIN).retention_days == 3


class Home:
    """A memory whose configuration changes while it is open."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.config = config(folder, {})
        self.memories = BuiltinMemories(
            lambda: self.config, store, SystemClock(), str, lambda _: None
        )
        self.notes = self.config.workspace(MAIN) / "memory"
        self.notes.mkdir(parents=True)

    def change(self, search: dict[str, Any], **defaults: Any) -> None:
        self.config = config(self.folder, search, defaults=defaults)

    async def chunks(self) -> int:
        return (await self.memories.of(MAIN).status()).chunks


@pytest.fixture
async def home(tmp_path: Path) -> Any:
    async with open_store(tmp_path / "state.sqlite") as store:
        made = Home(tmp_path, store)
        async with made.memories.open(keep=False):
            yield made


async def test_another_chunking_rebuilds_the_index_and_the_old_one_serves_until_then(
    home: Home,
) -> None:
    (home.notes / "long.md").write_text("The boat is blue. " * 200)
    memory = home.memories.of(MAIN)
    await memory.read()
    before = await home.chunks()
    home.change({"chunking": {"preset": "1024/128"}})
    (home.notes / "new.md").write_text("The ship is grey. " * 200)
    answer = await memory.search(MemoryQuestion("grey ship"))
    assert answer.hits[0].path == "memory/new.md"
    assert await home.chunks() == 2 * before  # cut as the others are
    await memory.read()
    assert await home.chunks() == 2


@pytest.mark.requirement("memory-db-location")
async def test_each_agent_has_an_index_of_its_own(home: Home) -> None:
    agents = {"list": [{"id": "main"}, {"id": "work"}]}
    found, _ = check(
        {"agents": agents}, state_dir=home.folder / "state", path=home.folder / "skerry.json"
    )
    home.config = found
    for agent, text in (("main", "The boat is blue."), ("work", "The invoice is due.")):
        notes = found.workspace(AgentId(agent))
        notes.mkdir(parents=True, exist_ok=True)
        (notes / "MEMORY.md").write_text(text)
        await home.memories.of(AgentId(agent)).read()
    for agent, word, other in (("main", "boat", "invoice"), ("work", "invoice", "boat")):
        memory = home.memories.of(AgentId(agent))
        assert [hit.path for hit in (await memory.search(MemoryQuestion(word))).hits] == [
            "MEMORY.md"
        ]
        assert not (await memory.search(MemoryQuestion(other))).hits
    files = sorted(path.name for path in (home.folder / "state/memory").glob("*.sqlite"))
    assert files == ["main.sqlite", "work.sqlite"]


async def test_a_search_has_the_settings_of_now(home: Home) -> None:
    (home.notes / "boats.md").write_text("The boat is blue.")
    extra = home.folder / "more"
    extra.mkdir()
    (extra / "ships.md").write_text("The ship is grey.")
    memory = home.memories.of(MAIN)
    assert not (await memory.search(MemoryQuestion("grey"))).hits
    home.change({"extraPaths": [str(extra)]})
    assert (await memory.search(MemoryQuestion("grey"))).hits
    home.change({"sources": ["sessions"]})
    assert not (await memory.search(MemoryQuestion("blue boat"))).hits
    assert not memory_paths(home.config, MAIN).enabled


async def test_daily_logs_begin_when_the_person_s_day_does(home: Home) -> None:
    (home.notes / "2026-05-03.md").write_text("The boat is blue.")
    memory = home.memories.of(MAIN)
    for zone, hours in (("UTC", 0), ("America/New_York", 4), ("Asia/Tokyo", -9)):
        home.change({}, userTimezone=zone)
        await memory.read()
        (hit,) = (await memory.search(MemoryQuestion("boat"))).hits
        assert hit.source is MemorySource.MEMORY
        midnight = datetime(2026, 5, 3, tzinfo=UTC).timestamp() * 1000
        assert hit.at == midnight + hours * 3_600_000


class _Gate(SystemClock):
    """A clock at which the job of an index waits, in its thread, before it reads transcripts."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def now_ms(self) -> int:
        if threading.current_thread() is not threading.main_thread():
            self.reached.set()
            assert self.open.wait(60)
        return super().now_ms()


async def test_a_job_that_was_abandoned_before_it_read_transcripts_ends(tmp_path: Path) -> None:
    # Sent to the event loop, the reading would wait in a cancel scope that has ended, and a stop of
    # the gateway would wait for it.
    gate, has_read = _Gate(), threading.Event()
    parsed = config(tmp_path, {"sources": ["memory", "sessions"]})

    def redact(text: str) -> str:
        has_read.set()
        return text

    def write(unit: Unit) -> None:
        session, tail = sessions.ensure(unit, SessionKey.main(), SessionId("s1"), 1)
        yesterday = gate.now_ms() - 86_400_000
        messages = [user("The boat is blue.", yesterday)]
        sessions.append(unit, session, tail, "r", messages, yesterday)

    async with open_store(tmp_path / "state.sqlite") as store:
        gate.open.set()
        await store.write(write)
        gate.open.clear()
        gate.reached.clear()
        memories = BuiltinMemories(lambda: parsed, store, gate, redact, lambda _: None)
        async with memories.open(keep=False):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(memories.of(MAIN).read)
                await anyio.to_thread.run_sync(gate.reached.wait)
                tasks.cancel_scope.cancel()
            gate.open.set()
            assert await anyio.to_thread.run_sync(has_read.wait, 60)
