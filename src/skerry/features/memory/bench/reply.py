"""Measures the evidence in replies: asks `memory_search` itself, over files and transcripts."""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from skerry.config.root import Config
from skerry.features.memory.bench.measure import MODEL, Report, Table
from skerry.features.memory.bench.sets import BenchScope, BenchTrial
from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.documents import Document
from skerry.features.memory.index import Index
from skerry.features.memory.index_search import Weighing
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.service import MemorySearchService
from skerry.features.memory.tools import MemorySearch
from skerry.features.memory.transcript_markdown import document
from skerry.infra.rooted_fs import Beneath
from skerry.model.caller import Caller
from skerry.model.ids import AgentId, SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.memory import TrackedConversation, Utterance
from skerry.model.origin import Origin
from skerry.model.provenance import clean
from skerry.ports.memory import MemoryBackend
from skerry.ports.tool import ToolContext
from skerry_recall.embed import EmbeddingModel, Kind
from skerry_recall.numbers import Floats, np
from skerry_recall.passage import Passage

KIND: Final = "turn"
"""The trials whose turns are also asked for through the tool."""
NAME: Final = "reply.evidence"
KINDS: Final = ("notes", "transcripts")
"""A session as a file of notes, and as what was said in a conversation with the agent."""
_DAY_MS: Final = 86_400_000
_OWNER: Final = Caller(SessionKey.main(), PeerKind.DIRECT, Origin.OWNER, is_private=True)
_YEARS: Final = 3650
"""Days for which transcripts are searched."""

Embed = Callable[[Kind, Sequence[str]], Awaitable[Mapping[str, Floats]]]
"""Embeds texts."""


async def evidence(
    trials: Sequence[BenchTrial],
    profiles: Sequence[str],
    folder: Path,
    report: Report,
    embed: Embed | None = None,
) -> Table:
    """Returns for each profile the share of the turns that answer which the replies show.

    Each session of a conversation is a file `memory/DATE-SESSION.md`; for `transcripts`, what was
    said in a conversation with the agent. A turn counts if the reply has all of it. Without
    `embed` words alone are compared.
    """
    table: dict[str, dict[str, float]] = {name: {} for name in profiles}
    for trial in trials:
        name = f"{trial.name.rpartition('.')[0]}.{NAME}"
        for kind in KINDS:
            way = _Way(kind, folder / kind, embed)
            measured = await _measured(trial, profiles, way, partial(report, f"{name}.{kind}"))
            for who, value in measured.items():
                table[who][f"{name}.{kind}"] = round(value, 2)
        for figures in table.values():
            figures[name] = round(sum(figures[f"{name}.{kind}"] for kind in KINDS) / len(KINDS), 2)
    return table


@dataclass(frozen=True, slots=True)
class _Way:
    """Form in which a conversation is stored and searched."""

    kind: str
    folder: Path
    embed: Embed | None


async def _measured(
    trial: BenchTrial, profiles: Sequence[str], way: _Way, report: Callable[[int, int], None]
) -> Mapping[str, float]:
    """Returns the figure of each profile, in per cent."""
    total = max(1, sum(len(scope.queries) for scope in trial.scopes))
    sums = dict.fromkeys(profiles, 0.0)
    done = 0
    for scope in trial.scopes:
        async with aclosing(_Asking(scope, way)) as asking:
            await asking.fill()
            for query in scope.queries:
                for who in profiles:
                    sums[who] += await asking.share(query.text, query.gold, who)
                done += 1
                report(done, total)
    return {who: 100 * value / total for who, value in sums.items()}


class _Asking:
    """A memory that holds one conversation, and the tool that asks it."""

    def __init__(self, scope: BenchScope, way: _Way) -> None:
        notes, folder = way.kind == KINDS[0], way.folder / scope.name
        self._units = dict(zip(scope.units, scope.passages, strict=True))
        self._profile = ""
        sessions = list(_sessions(scope))
        workspace = folder / "workspace"
        (workspace / "memory").mkdir(parents=True)
        if notes:
            for name, utterances in sessions:
                text = "\n".join(utterance.text for utterance in utterances)
                (workspace / "memory" / f"{name}.md").write_text(text, "utf-8")
        clock = _Clock(max((passage.at or 0 for passage in scope.passages), default=0) + _DAY_MS)
        settings = IndexSettings(MemoryPaths(workspace), zone="UTC", retention_days=_YEARS)
        embedder = _Embedder(way.embed) if way.embed else None
        self._memory = BuiltinMemory(
            AgentId("main"),
            Index(folder / "memory.sqlite", settings, clock),
            clock,
            talks=None if notes else _Conversations(sessions),
            embedder=lambda: embedder,
            weighing=lambda: Weighing(profile=self._profile),
        )
        config = Config.model_validate({"state_dir": folder, "path": folder / "skerry.json"})
        self._tool = MemorySearch(MemorySearchService(_One(self._memory), lambda: config, clock))
        self._context = ToolContext(Beneath(workspace), None, _OWNER)

    async def fill(self) -> None:
        """Indexes everything, its vectors too."""
        await self._memory.sync()

    async def share(self, question: str, gold: frozenset[str], profile: str) -> float:
        """Returns the share of the turns that answer which are in the reply."""
        self._profile = profile
        result = await self._tool.run({"query": question}, self._context)
        reply = json.loads(result.text)
        snippets = _flat("\n".join(hit["snippet"] for hit in reply["results"]))
        turns = [_flat(self._units[unit].text.partition(": ")[2]) for unit in gold]
        return sum(turn in snippets for turn in turns) / len(turns)

    async def aclose(self) -> None:
        """Lets go of the index."""
        self._memory.close()


@dataclass(frozen=True, slots=True)
class _Clock:
    """The day after the last session."""

    at: int

    def now_ms(self) -> int:
        """Returns that day."""
        return self.at


@dataclass(frozen=True, slots=True)
class _One:
    """The memories of one agent."""

    memory: MemoryBackend

    def of(self, _: AgentId) -> MemoryBackend:
        """Returns its memory."""
        return self.memory


class _Conversations:
    """Sessions as the owner's conversations. Implements `memory.index.Conversations`."""

    def __init__(self, sessions: Sequence[tuple[str, Sequence[Passage]]]) -> None:
        self._said = dict(sessions)

    def conversations(self, since: int) -> Sequence[TrackedConversation]:
        """Returns those since then."""
        conversations = [
            TrackedConversation(
                name,
                str(_OWNER.key),
                len(utterances),
                sum(len(utterance.text) for utterance in utterances),
                max(utterance.at or 0 for utterance in utterances),
            )
            for name, utterances in self._said.items()
        ]
        return [conversation for conversation in conversations if conversation.updated_at >= since]

    def document(self, conversation: TrackedConversation, after: int = 0) -> Document:
        """Returns the transcript behind entry `after`: who speaks first is the user."""
        utterances = self._said[conversation.session_id]
        user = utterances[0].text.partition(": ")[0]
        turns = []
        for seq, utterance in enumerate(utterances[after:], after + 1):
            who, _, text = utterance.text.partition(": ")
            turns.append(Utterance(who == user, text, utterance.at or 0, seq))
        return document(conversation, turns, str)


class _Embedder:
    """Gives the vectors that were made before, and has the others made."""

    local = True
    bulk = 64

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self.model = EmbeddingModel(*MODEL.split("/"))
        self.dims: int | None = None

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns a row a text."""
        made = await self._embed(kind, texts)
        rows = np.array([made[text] for text in texts], np.float32)
        self.dims = rows.shape[1]
        return rows


def _sessions(scope: BenchScope) -> Iterator[tuple[str, Sequence[Passage]]]:
    """Yields the sessions of a conversation, each by the name of its file."""
    for number, passages in groupby(scope.passages, key=lambda passage: passage.document):
        turns = list(passages)
        day = datetime.fromtimestamp((turns[0].at or 0) / 1000, UTC)
        yield f"{day:%Y-%m-%d}-session-{number + 1}", turns


def _flat(text: str) -> str:
    return " ".join(clean(text).split())
