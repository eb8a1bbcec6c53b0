"""Which files of a workspace a prompt has, in which order, and how much of each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.model.ids import AccountId, ChannelId, RunId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunRequest
from skerry.workspace.prompt_files import (
    MIN_CHARS,
    ORDER,
    FileLimits,
    FileText,
    ShownFile,
    cut,
    fitted,
    project,
    prompt_names,
)

TO = ReplyTo(ChannelId("memory"), AccountId("a"), Peer(PeerKind.DIRECT, "1"), "m")


def names_for(
    key: str,
    purpose: Purpose = Purpose.MESSAGE,
    *,
    to: ReplyTo | None = None,
    origin: Origin = Origin.STRANGER,
) -> RunRequest:
    session_key = SessionKey.parse(key)
    return RunRequest(RunId("r"), session_key, "hi", reply_to=to, origin=origin, purpose=purpose)


@pytest.mark.requirement("identity-injection-order")
def test_the_files_are_in_the_order_of_the_seed() -> None:
    names = names_for("main", Purpose.HEARTBEAT)
    assert prompt_names(names, ritual=True) == (
        "IDENTITY.md",
        "SOUL.md",
        "USER.md",
        "AGENTS.md",
        "TOOLS.md",
        "MEMORY.md",
        "HEARTBEAT.md",
        "BOOTSTRAP.md",
    )


@pytest.mark.requirement("identity-subagent-files")
@pytest.mark.parametrize("key", ["agent:main:subagent:1", "agent:main:main"])
def test_a_sub_agent_gets_agents_and_tools_alone(key: str) -> None:
    request = names_for(key, Purpose.SUBAGENT)
    assert prompt_names(request, ritual=True) == ("AGENTS.md", "TOOLS.md")


@pytest.mark.requirement("identity-file-heartbeat-md")
@pytest.mark.parametrize(
    "purpose", [purpose for purpose in Purpose if purpose is not Purpose.HEARTBEAT]
)
def test_the_checklist_of_heartbeats_is_in_no_other_prompt(purpose: Purpose) -> None:
    assert "HEARTBEAT.md" not in prompt_names(names_for("main", purpose), ritual=True)
    assert "HEARTBEAT.md" in prompt_names(names_for("main", Purpose.HEARTBEAT), ritual=False)


def test_who_the_owner_is_and_what_is_on_their_machines_is_told_to_nobody_else() -> None:
    strangers = names_for("agent:main:memory:direct:1", to=TO)
    rest = ("IDENTITY.md", "SOUL.md", "AGENTS.md")
    assert prompt_names(strangers, ritual=False) == rest
    group = "agent:main:memory:group:1"
    assert prompt_names(names_for(group, to=TO, origin=Origin.KNOWN), ritual=False) == rest
    names = ("IDENTITY.md", "SOUL.md", "USER.md", "AGENTS.md", "TOOLS.md")
    assert prompt_names(names_for(group, to=TO, origin=Origin.OWNER), ritual=False) == names
    assert prompt_names(strangers, ritual=False, shared=True) == names, "they may read the files"


@pytest.mark.requirement("identity-file-memory-md")
@pytest.mark.parametrize(
    ("request_", "private"),
    [
        (names_for("main"), True),
        (names_for("main", to=TO, origin=Origin.OWNER), True),
        (names_for("main", to=TO), False),
        (names_for("main", Purpose.HEARTBEAT, to=TO), True),
        (names_for("agent:main:global"), False),
        (names_for("agent:main:work"), True),
        (names_for("agent:main:memory:direct:1", to=TO, origin=Origin.OWNER), True),
        (names_for("agent:main:memory:direct:1", to=TO), False),
        (names_for("agent:main:memory:direct:1", to=TO, origin=Origin.KNOWN), False),
        (names_for("agent:main:memory:direct:1", origin=Origin.OWNER), False),
        (names_for("agent:main:memory:group:1", to=TO, origin=Origin.OWNER), False),
        (names_for("agent:main:memory:channel:1", to=TO, origin=Origin.OWNER), False),
        (names_for("cron:daily", Purpose.CRON), False),
        (names_for("hook:1", Purpose.HOOK), False),
        (names_for("agent:main:boot", Purpose.BOOT), False),
    ],
    ids=lambda value: str(value.key) if isinstance(value, RunRequest) else str(value),
)
def test_long_term_memory_is_for_private_conversations(
    request_: RunRequest,
    private: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    assert request_.is_private is private
    assert ("MEMORY.md" in prompt_names(request_, ritual=False)) is private


def test_the_checklist_is_for_heartbeats_alone() -> None:
    with_it = {
        purpose
        for purpose in Purpose
        if "HEARTBEAT.md" in prompt_names(names_for("main", purpose), ritual=False)
    }
    assert with_it == {Purpose.HEARTBEAT}


@pytest.mark.requirement("identity-file-soul-md")
@pytest.mark.parametrize("key", ["main", "agent:main:memory:group:1", "cron:daily"])
def test_who_it_is_and_how_it_works_stand_in_every_conversation(key: str) -> None:
    names = prompt_names(names_for(key), ritual=False)
    assert names[:5] == ("IDENTITY.md", "SOUL.md", "USER.md", "AGENTS.md", "TOOLS.md")


def test_a_notes_run_has_the_files_of_its_conversation() -> None:
    assert prompt_names(names_for("main", Purpose.FLUSH), ritual=True) == prompt_names(
        names_for("main"), ritual=True
    )


def test_a_file_that_is_too_long_shows_its_begin_and_end_and_says_so() -> None:
    text = "a" * 1400 + "-" * 5000 + "z" * 400
    part = cut("AGENTS.md", text, 2000)
    assert part.startswith("a" * 1400 + "\n[… AGENTS.md: 1400 + 400 of 6800 characters")
    assert part.endswith("…]\n" + "z" * 400)


@given(st.text(max_size=3000), st.integers(MIN_CHARS, 2500))
def test_no_file_takes_more_than_its_limit_and_a_short_one_is_whole(text: str, limit: int) -> None:
    part = cut("A.md", text, limit)
    assert len(part) <= limit
    assert part == text or len(text) > limit


@given(
    st.lists(st.text(max_size=400), max_size=8),
    st.integers(MIN_CHARS, 500),
    st.integers(MIN_CHARS, 1500),
)
def test_all_of_them_together_stay_within_the_total(
    texts: list[str], each: int, total: int
) -> None:
    files = [FileText(f"{n}.md", text.strip()) for n, text in enumerate(texts)]
    shown_files = fitted(files, FileLimits(each, total))
    assert sum(len(file.text) for file in shown_files) <= total
    assert [file.name for file in shown_files] == [file.name for file in files if file.text]


def test_what_has_no_room_is_named() -> None:
    files = [FileText("A.md", "a" * 980), FileText("B.md", "b")]
    shown_files = fitted(files, FileLimits(1000, 1000))
    assert shown_files[1] == ShownFile("B.md", "", 1)
    assert project(shown_files).endswith("[Left out, there was no room: B.md]")


def test_a_file_that_cannot_be_read_says_why_and_an_empty_one_says_nothing() -> None:
    files = [FileText("A.md", "", "it goes through a symbolic link"), FileText("B.md", "")]
    text = project(fitted(files, FileLimits()))
    assert text == (
        "## Workspace files\n\n### A.md\n[A.md is not shown: it goes through a symbolic link.]"
    )


def test_without_files_there_is_no_section() -> None:
    assert project([]) == ""
    assert len(ORDER) == 8
