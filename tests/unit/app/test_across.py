"""What no part has alone: sessions that begin anew, compaction, the search and backups together."""

from collections.abc import Sequence
from pathlib import Path

import anyio
from msgspec.structs import replace

from skerry.config.agents import AgentDefaults, AgentsConfig
from skerry.config.context_limits import Compaction, MemoryFlush
from skerry.infra.clock import SystemClock
from skerry.model.ids import SessionId
from skerry.model.message import AssistantMessage, UserMessage
from skerry.model.run import RunResult, StopReason
from skerry.ports.model import ModelRequest
from skerry.runtime.recovery import recover
from skerry.sessions.summary import SYSTEM
from skerry.store import archive, backups, compactions, sessions
from skerry.store.backups import BackupKind
from skerry.store.restore import restore
from skerry.store.transcript_search import TranscriptQuery, search
from skerry.testing.model import MODEL, ReplyGate, ScriptedModel, Step, echo
from tests.support.core import MAIN, Core, request
from tests.support.openings import NOON, Opened, current, transcript_texts

SMALL = replace(MODEL, context_window=2000, max_tokens=200)
LARGE = replace(MODEL, context_window=1_000_000)
SETTINGS = Compaction(memory_flush=MemoryFlush(enabled=False))
AGENTS = AgentsConfig(defaults=AgentDefaults(compaction=SETTINGS))
LAST = "the last straw"
SAID = (UserMessage, AssistantMessage)


class Talker:
    """A model that answers, and makes summaries, at a gate if there is one."""

    def __init__(self, gate: ReplyGate | None = None) -> None:
        self.gate = gate
        self.model = ScriptedModel(self._say)

    def _say(self, asked: ModelRequest) -> Sequence[Step]:
        if asked.system != SYSTEM:
            return echo(asked)
        gate, self.gate = self.gate, None
        return [gate, "We spoke of boats."] if gate else ["We spoke of boats."]

    def read(self) -> str:
        """Returns the conversation in the model's last request."""
        seen = next(
            request for request in reversed(self.model.requests) if request.request.system != SYSTEM
        )
        said = (
            message for message in seen.messages[seen.request.first :] if isinstance(message, SAID)
        )
        return "\n".join(message.text for message in said)

    def opened(self, home: Path) -> Opened:
        return Opened(home, self.model, agents=AGENTS)


async def talk(core: Core) -> SessionId:
    """Says so much that a small window needs a compaction before the next word."""
    core.models.info = LARGE
    for number in range(12):
        await core.ask(f"message {number} " + "blue " * 60)
    core.models.info = SMALL
    return (await current(core)).session_id


async def count(core: Core, session_id: SessionId) -> int:
    state = await core.store.read(lambda reader: compactions.state(reader, session_id))
    return state.count


async def hits_of(core: Core, words: str) -> list[tuple[str, bool]]:
    hits = (await search(core.store, TranscriptQuery(MAIN, words, limit=1))).hits
    return [(hit.session_id, hit.archived) for hit in hits]


async def reset(core: Core) -> SessionId:
    new_id = SessionId("new")

    async def work() -> None:
        await core.store.write(lambda unit: archive.reset(unit, MAIN, new_id, NOON))

    await core.dispatch.run_exclusive(MAIN, work, stopping="reset")
    return new_id


async def ended(core: Core) -> RunResult:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(request(LAST).run_id, None)
    assert result is not None
    return result


async def at_the_gate(core: Core, gate: ReplyGate) -> None:
    """Lets a run come to the summary that it needs, and stay there."""
    await core.dispatch.submit(request(LAST))
    with anyio.fail_after(60):
        await gate.reached.wait()


async def test_a_compacted_session_is_resumed_with_its_summary_and_found_all_the_while(
    tmp_path: Path,
) -> None:
    talker = Talker()
    async with talker.opened(tmp_path) as core:
        old = await talk(core)
        await core.ask(LAST)
        assert await count(core, old) == 1
        await core.ask("/new", "n")
        await core.ask("fresh")
        assert "boats" not in talker.read()
        assert await hits_of(core, "message 0 blue") == [(old, True)]
        await core.ask("/resume", "r")
        assert (await current(core)).session_id == old
        assert await hits_of(core, "message 0 blue") == [(old, False)]
        assert await hits_of(core, "fresh") == [((await earlier_id(core)), True)]
        core.models.info = LARGE
        await core.ask("where were we?")
        read = talker.read()
        assert "We spoke of boats." in read
        assert LAST in read
        assert "message 0 blue" not in read
        assert "fresh" not in read
        assert await count(core, old) == 1


async def earlier_id(core: Core) -> SessionId:
    ended = await core.store.read(lambda reader: archive.earlier(reader, str(MAIN), 1))
    return ended[0].session_id


async def test_a_session_that_is_reset_in_its_compaction_is_left_whole(tmp_path: Path) -> None:
    talker = Talker(gate := ReplyGate())
    async with talker.opened(tmp_path) as core:
        old = await talk(core)
        await at_the_gate(core, gate)
        new = await reset(core)
        assert (await ended(core)).aborted_by == "reset"
        assert [await count(core, session_id) for session_id in (old, new)] == [0, 0]
        await core.ask("fresh")
        assert await transcript_texts(core) == ["fresh", "echo: fresh"]
        await core.ask("/resume", "r")
        await core.ask("and now?")
        assert await count(core, old) == 1
        assert "We spoke of boats." in talker.read()


async def test_a_backup_of_a_session_in_its_compaction_gives_it_back_whole(tmp_path: Path) -> None:
    talker = Talker(gate := ReplyGate())
    async with talker.opened(tmp_path) as core:
        old = await talk(core)
        await at_the_gate(core, gate)
        made = await anyio.to_thread.run_sync(
            backups.create, tmp_path, BackupKind.MANUAL, SystemClock().now_ms()
        )
        gate.open()
        assert (await ended(core)).stop_reason is StopReason.DONE
        assert await count(core, old) == 1
    restore(tmp_path, made, SystemClock().now_ms())
    async with talker.opened(tmp_path) as core:
        assert await count(core, old) == 0
        texts = await transcript_texts(core)
        assert texts[0].startswith("message 0 ")
        assert texts[-1] == LAST
        # What was open when the copy was made may be done: it is closed, and not run again.
        assert await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks) == []
        core.models.info = SMALL
        await core.ask("go on")
        assert await count(core, old) == 1
        assert await hits_of(core, "message 0 blue") == [(old, False)]
        entries = await core.store.read(lambda reader: sessions.entries(reader, old, limit=-1))
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
