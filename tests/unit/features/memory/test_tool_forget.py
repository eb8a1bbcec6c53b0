"""The tool `memory_forget` and `/forget`: the owner's own, and nobody else's."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path

import pytest
from msgspec.structs import replace

from skerry.features.memory.chat_commands import summary
from skerry.features.memory.tools import MemoryForget
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.ids import AgentId
from skerry.model.origin import Origin
from skerry.model.redaction import Redaction
from skerry.model.redaction_report import Forgotten, ForgottenLine, HoldingBackup
from skerry.testing.memory import FakeBackend, hit
from tests.support.memory import GROUP, OWNER, STRANGER, MemoryRig, memory_rig

LINE = ForgottenLine("MEMORY.md", 3, "The dentist is in Mill Road.")
BACKUP = HoldingBackup("state-1", "b/state-1", 5, 9, "rm b/state-1")
REPORT = Forgotten(messages=2, lines=(LINE,), left=(("memory/a.md", "it is read-only"),))


@dataclass
class FakeForgets:
    """Records the requests to forget. Implements `ports.memory.Forgets`."""

    asked: list[tuple[str, Sequence[str]]] = field(default_factory=list)

    async def look(self, agent: AgentId, phrases: Sequence[str]) -> Forgotten:
        raise AssertionError(agent, phrases)

    async def forget(
        self, agent: AgentId, phrases: Sequence[str], *, extra: bool = False
    ) -> Forgotten:
        assert not extra
        self.asked.append((agent, Redaction(phrases).phrases))
        return replace(REPORT, backups=(BACKUP,))


@pytest.fixture
def forgets() -> FakeForgets:
    return FakeForgets()


@pytest.fixture
def rig(tmp_path: Path, forgets: FakeForgets) -> MemoryRig:
    said = hit("sessions/1.md", "User: no", session="agent:main:telegram:direct:7")
    made = memory_rig(tmp_path, FakeBackend([hit(), said]))
    return changed(made, service=replace(made.service, forgets=forgets))


async def test_it_says_what_went_what_holds_it_and_what_is_near_but_not_the_words(
    rig: MemoryRig, forgets: FakeForgets
) -> None:
    payload = await rig.call(MemoryForget(rig.service), {"text": "Mill Road"})
    assert forgets.asked == [("main", ("Mill Road",))]
    assert (payload["messages"], payload["lines"]) == (2, [{"path": "MEMORY.md", "line": 3}])
    assert payload["left"] == [{"path": "memory/a.md", "reason": "it is read-only"}]
    assert payload["backups"][0]["until"] == 9
    assert [row["path"] for row in payload["near"]] == ["memory/2026-11-20.md"]


@pytest.mark.parametrize("caller", [None, STRANGER, GROUP])
async def test_nobody_but_the_owner_in_private_may_use_it(
    rig: MemoryRig, forgets: FakeForgets, caller: Caller | None
) -> None:
    tool = MemoryForget(rig.service)
    assert caller is None or not tool.is_offered(caller)
    assert tool.is_offered(OWNER)
    with pytest.raises(ToolError, match="only your owner"):
        await rig.call(tool, {"text": "Mill Road"}, caller)
    assert forgets.asked == []


@pytest.mark.parametrize("origin", [Origin.TOOL, Origin.WEB, Origin.STRANGER])
async def test_words_of_others_bring_nothing_about(
    rig: MemoryRig, forgets: FakeForgets, origin: Origin
) -> None:
    with pytest.raises(ToolError, match="/forget WORDS"):
        await rig.call(MemoryForget(rig.service), {"text": "x y z"}, taint=frozenset({origin}))
    assert forgets.asked == []


async def test_a_phrase_that_is_too_short_is_refused_with_what_would_do(rig: MemoryRig) -> None:
    with pytest.raises(ToolError, match="at least 3"):
        await rig.call(MemoryForget(rig.service), {"text": "a"})


def test_the_answer_in_a_chat_is_one_line() -> None:
    assert summary(REPORT) == (
        "Forgotten: 1 statement in files, 2 messages. It may still be in memory/a.md."
    )
    assert summary(Forgotten()) == "No text had these words."
