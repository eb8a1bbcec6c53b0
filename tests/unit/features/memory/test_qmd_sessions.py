"""Conversations as files for QMD: written when they grew, removed when they are old."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from skerry.features.memory.qmd_sessions import SessionExport, file_name
from skerry.model.ids import AgentId, agent_id
from skerry.model.memory import TrackedConversation, Utterance
from skerry.testing.clock import FakeClock

DAY = 86_400_000
NOW = FakeClock().now_ms()


@dataclass(slots=True)
class StoredTranscripts:
    """Transcripts in memory; implements `ports.memory.Transcripts`."""

    talks: dict[TrackedConversation, Sequence[Utterance]]
    read: list[str] = field(default_factory=list)

    async def conversations(self, agent: AgentId, since: int) -> Sequence[TrackedConversation]:
        assert agent == "main"
        return [talk for talk in self.talks if talk.updated_at >= since]

    async def utterances(
        self, conversation: TrackedConversation, after: int = 0
    ) -> Sequence[Utterance]:
        assert not after  # all of it is asked for
        self.read.append(conversation.session_id)
        return self.talks[conversation]


def talk(
    session_id: str, *, key: str = "agent:main:main", size: int = 9, at: int = NOW
) -> TrackedConversation:
    return TrackedConversation(session_id, key, entries=2, size=size, updated_at=at)


def export(said: StoredTranscripts) -> SessionExport:
    return SessionExport(
        agent_id("main"), said, FakeClock(), lambda text: text.replace("sk-1", "[redacted]")
    )


@pytest.mark.requirement("memory-session-export")
@pytest.mark.requirement("memory-session-sanitised")
async def test_roles_are_kept_and_secrets_are_not(tmp_path: Path) -> None:
    said = StoredTranscripts(
        {
            talk("abc"): [
                Utterance(by_user=True, text="my key is sk-1", at=NOW),
                Utterance(by_user=False, text="ok", at=NOW),
            ]
        }
    )
    assert await export(said)(tmp_path) == {"abc.md": "agent:main:main"}
    text = (tmp_path / "abc.md").read_text("utf-8")
    assert text == "User: my key is [redacted]\n\nAssistant: ok\n"
    assert (tmp_path / "abc.md").stat().st_mode & 0o777 == 0o600
    assert round((tmp_path / "abc.md").stat().st_mtime * 1000) == NOW


@pytest.mark.requirement("memory-session-retention")
async def test_old_and_deleted_conversations_are_removed(tmp_path: Path) -> None:
    said = StoredTranscripts(
        {
            talk("old", at=NOW - 31 * DAY): [],
            talk("young", at=NOW - 29 * DAY): [Utterance(by_user=True, text="hello", at=NOW)],
        }
    )
    (tmp_path / "old.md").write_text("x", "utf-8")
    (tmp_path / "deleted.md").write_text("x", "utf-8")
    await export(said)(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["young.md"]


async def test_only_what_grew_is_read_again(tmp_path: Path) -> None:
    said = StoredTranscripts(
        {
            talk("a"): [Utterance(by_user=True, text="one", at=NOW)],
            talk("b"): [Utterance(by_user=True, text="x", at=NOW)],
        }
    )
    writer = export(said)
    await writer(tmp_path)
    said.read.clear()
    said.talks = {talk("a", size=20): [Utterance(by_user=True, text="two", at=NOW)], talk("b"): []}
    await writer(tmp_path)
    assert said.read == ["a"]
    assert (tmp_path / "a.md").read_text("utf-8") == "User: two\n"
    (tmp_path / "b.md").unlink()
    await writer(tmp_path)
    assert said.read == ["a", "b"]


@pytest.mark.requirement("qmd-topic-export")
def test_a_topic_is_named_and_no_name_leads_elsewhere() -> None:
    key = "agent:main:telegram:group:7:topic:42"
    assert file_name(talk("abc", key=key)) == "abc-topic-42.md"
    assert file_name(talk("../a/b")) == "-a-b.md"
