"""Measures the evidence in replies of the tool `memory_search`, over files and transcripts."""

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
from skerry.infra.rooted_fs import RootedFolder
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
"""Kind of the trials whose queries also run through the tool."""
NAME: Final = "reply.evidence"
KINDS: Final = ("notes", "transcripts")
"""Two forms of a session: a file of notes, and a conversation with the agent."""
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
    """Returns for each profile the share of the relevant turns that the replies contain.

    Each session of a conversation is a file `memory/DATE-SESSION.md`; for `transcripts`, a
    conversation with the agent. A turn counts if the reply contains its whole text. Without
    `embed`, only words are compared.
    """
    table: dict[str, dict[str, float]] = {name: {} for name in profiles}
    for trial in trials:
        name = f"{trial.name.rpartition('.')[0]}.{NAME}"
        for kind in KINDS:
            way = _Way(kind, folder / kind, embed)
            measured = await _measured(trial, profiles, way, partial(report, f"{name}.{kind}"))
            for profile, value in measured.items():
                table[profile][f"{name}.{kind}"] = round(value, 2)
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
    answered = 0
    for scope in trial.scopes:
        async with aclosing(_ConversationMemory(scope, way)) as memory:
            await memory.fill()
            for query in scope.queries:
                for profile in profiles:
                    sums[profile] += await memory.share(query.text, query.gold, profile)
                answered += 1
                report(answered, total)
    return {profile: 100 * value / total for profile, value in sums.items()}


class _ConversationMemory:
    """A memory of one conversation, and the tool that searches it."""

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
            transcripts=None if notes else _Conversations(sessions),
            embedder=lambda: embedder,
            weighing=lambda: Weighing(profile=self._profile),
        )
        config = Config.model_validate({"state_dir": folder, "path": folder / "skerry.json"})
        self._tool = MemorySearch(
            MemorySearchService(_SingleMemory(self._memory), lambda: config, clock)
        )
        self._context = ToolContext(RootedFolder(workspace), None, _OWNER)

    async def fill(self) -> None:
        """Indexes the conversation, with its vectors."""
        await self._memory.sync()

    async def share(self, question: str, gold: frozenset[str], profile: str) -> float:
        """Returns the share of the relevant turns that are in the reply."""
        self._profile = profile
        result = await self._tool.run({"query": question}, self._context)
        reply = json.loads(result.text)
        snippets = _flat("\n".join(hit["snippet"] for hit in reply["results"]))
        turns = [_flat(self._units[unit].text.partition(": ")[2]) for unit in gold]
        return sum(turn in snippets for turn in turns) / len(turns)

    async def aclose(self) -> None:
        """Closes the index."""
        self._memory.close()


@dataclass(frozen=True, slots=True)
class _Clock:
    """Clock that shows the day after the last session."""

    at: int

    def now_ms(self) -> int:
        """Returns that day, in ms since 1970."""
        return self.at


@dataclass(frozen=True, slots=True)
class _SingleMemory:
    """The memories of one agent."""

    memory: MemoryBackend

    def of(self, _: AgentId) -> MemoryBackend:
        """Returns its memory."""
        return self.memory


class _Conversations:
    """Sessions as the owner's conversations. Implements `memory.index.Conversations`."""

    def __init__(self, sessions: Sequence[tuple[str, Sequence[Passage]]]) -> None:
        self._turns = dict(sessions)

    def conversations(self, since: int) -> Sequence[TrackedConversation]:
        """Returns the sessions that were updated at or after `since`, in ms since 1970."""
        conversations = [
            TrackedConversation(
                name,
                str(_OWNER.key),
                len(utterances),
                sum(len(utterance.text) for utterance in utterances),
                max(utterance.at or 0 for utterance in utterances),
            )
            for name, utterances in self._turns.items()
        ]
        return [conversation for conversation in conversations if conversation.updated_at >= since]

    def document(self, conversation: TrackedConversation, after: int = 0) -> Document:
        """Returns the transcript after entry `after`; the first speaker is the user."""
        utterances = self._turns[conversation.session_id]
        user = utterances[0].text.partition(": ")[0]
        turns = []
        for seq, utterance in enumerate(utterances[after:], after + 1):
            speaker, _, text = utterance.text.partition(": ")
            turns.append(Utterance(speaker == user, text, utterance.at or 0, seq))
        return document(conversation, turns, str)


class _Embedder:
    """Embedder over the vectors that were computed before; missing ones are computed."""

    local = True
    bulk = 64

    def __init__(self, embed: Embed) -> None:
        self._embed = embed
        self.model = EmbeddingModel(*MODEL.split("/"))
        self.dims: int | None = None

    async def embed(self, texts: Sequence[str], kind: Kind) -> Floats:
        """Returns one row per text."""
        vectors = await self._embed(kind, texts)
        rows = np.array([vectors[text] for text in texts], np.float32)
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
