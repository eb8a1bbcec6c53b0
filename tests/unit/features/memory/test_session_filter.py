"""Nothing that may be shown is lost behind what may not: the filter is part of the search."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs
from msgspec.structs import replace

from skerry.features.memory.builtin import BuiltinMemory
from skerry.features.memory.documents import Document
from skerry.features.memory.index import Index
from skerry.features.memory.index_search import by_words
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.qmd_filter import fits, wide
from skerry.features.memory.transcript_markdown import document
from skerry.infra.clock import SystemClock
from skerry.model.ids import AgentId, SessionKey
from skerry.model.memory import MemoryQuestion, MemorySource, TrackedConversation, Utterance
from skerry.testing.memory import hit
from tests.support.memory import GROUP, OWNER, memory_rig

OTHERS = "agent:main:telegram:group:{}"
MINE = str(SessionKey.main())


class GroupTranscripts:
    """A hundred groups that speak of nothing but boats, and one word of the owner's on them."""

    def conversations(self, since: int) -> Sequence[TrackedConversation]:
        del since
        keys = [*(OTHERS.format(number) for number in range(100)), MINE]
        return [TrackedConversation(f"s{n}", key, 1, 100, 10) for n, key in enumerate(keys)]

    def document(self, conversation: TrackedConversation, after: int = 0) -> Document:
        del after  # it is short
        text = "boat boat blue boat" if conversation.key != MINE else "The boat lies in Faro."
        return document(conversation, [Utterance(by_user=True, text=text, at=10)], str)


@dataclass(frozen=True)
class Only:
    """Gives every agent this memory."""

    memory: BuiltinMemory

    def of(self, _: AgentId) -> BuiltinMemory:
        return self.memory


async def test_the_one_allowed_passage_is_found_behind_a_hundred_better_ones(
    tmp_path: Path,
) -> None:
    rig = memory_rig(tmp_path)
    index = Index(
        tmp_path / "main.sqlite", IndexSettings(MemoryPaths(rig.workspace)), SystemClock()
    )
    memory = BuiltinMemory(AgentId("main"), index, SystemClock(), transcripts=GroupTranscripts())
    await memory.read()
    service = replace(rig.service, memories=Only(memory))
    question = MemoryQuestion("blue boat", limit=3)
    assert not [hit for hit in (await memory.search(question)).hits if hit.session == MINE]
    answer = await service.find(OWNER, question)
    assert [hit.session for hit in answer.hits] == [MINE]
    with index.tables() as tables:
        only = structs.replace(question, opens=MINE.__eq__)
        assert [word.session for word in by_words(tables, only)] == [MINE]
    index.close()


def test_qmd_is_asked_for_more_and_its_hits_are_filtered() -> None:
    question = MemoryQuestion("boat", opens=MINE.__eq__)
    assert wide(question, 6) > 6
    assert fits(question, hit(session=MINE), scored=False)
    assert fits(question, hit(), scored=False)
    assert not fits(question, hit(session=OTHERS.format(1)), scored=False)
    lost = structs.replace(hit(session=MINE), session=None)
    assert lost.source is MemorySource.SESSIONS
    assert not fits(question, lost, scored=False)


async def test_a_memory_that_ignores_the_filter_shows_no_more(tmp_path: Path) -> None:
    rig = memory_rig(tmp_path, memory={"qmd": {"scope": {"default": "allow"}}})
    rig.backend.hits = [hit(session=OTHERS.format(1)), hit(session=str(GROUP.key))]
    answer = await rig.service.find(GROUP, MemoryQuestion("boat"))
    assert [hit.session for hit in answer.hits] == [str(GROUP.key)]
