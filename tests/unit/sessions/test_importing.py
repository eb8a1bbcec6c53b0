"""Import of transcript files: imported messages, skipped lines, and the report about them."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.infra.untrusted_json import DEEPEST
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    open_calls,
    user,
)
from skerry.model.origin import Origin
from skerry.model.session import Archived
from skerry.sessions.importing import FormatError, ImportedSession, as_owners, read
from skerry.store import compactions, open_store, sessions
from skerry.store.mirror import Mirror
from skerry.store.session_import import ImportOutcome, IncomingSession, take

HEAD = {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-05-04T10:00:00.000Z"}
AT = 1_777_888_800_000


def line(name: str, parent: str | None, role: str, content: Any, **fields: Any) -> dict[str, Any]:
    content_fields: dict[str, Any] = {"role": role, "content": content, "timestamp": AT, **fields}
    if role == "assistant":
        content_fields |= {
            "api": "a",
            "provider": "p",
            "model": "m",
            "usage": {},
            "stopReason": "stop",
        }
    when = "2026-05-04T10:00:01.000Z"
    return {
        "type": "message",
        "id": name,
        "parentId": parent,
        "timestamp": when,
        "message": content_fields,
    }


def imported(*lines: Any, head: Any = HEAD) -> ImportedSession:
    encoded = [
        record if isinstance(record, bytes) else json.dumps(record).encode()
        for record in (head, *lines)
    ]
    return read(record + b"\n" for record in encoded)


def texts(session: ImportedSession) -> list[str]:
    return ["".join(getattr(b, "text", "") for b in entry.content) for _, entry in session.messages]


def test_a_conversation_is_taken_as_it_was() -> None:
    session = imported(
        line("a", None, "user", "hi"),
        line("b", "a", "assistant", [{"type": "text", "text": "hello"}]),
    )
    assert (session.session_id, session.created_at) == ("s1", AT)
    assert texts(session) == ["hi", "hello"]
    assert [at for at, _ in session.messages] == [AT + 1000] * 2
    assert (session.report.messages, session.report.broken_lines) == (2, 0)


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ({"type": "message"}, "not the header"),
        ([], "not the header"),
        ({**HEAD, "version": 2}, "version 2"),
        ({"type": "session", "id": "s1"}, "version 1"),
        ({**HEAD, "id": "../../x"}, "no usable session id"),
        ({**HEAD, "id": 7}, "no usable session id"),
        (b"{", "not the header"),
        (b"\xff\xfe", "not the header"),
    ],
)
def test_what_is_no_transcript_of_version_3_is_refused(head: Any, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        imported(head=head)
    with pytest.raises(FormatError):
        read([])


def test_only_the_branch_that_was_last_is_taken() -> None:
    session = imported(
        line("a", None, "user", "one"),
        line("b", "a", "assistant", [{"type": "text", "text": "left"}]),
        line("c", "b", "user", "left too"),
        line("d", "a", "assistant", [{"type": "text", "text": "taken"}]),
    )
    assert texts(session) == ["one", "taken"]
    assert session.report.other_branch == 2


def test_what_cannot_be_taken_is_counted_and_named() -> None:
    session = imported(
        line("a", None, "user", "one"),
        {"type": "model_change", "id": "b", "parentId": "a", "provider": "p", "modelId": "m"},
        {"type": "compaction", "id": "c", "parentId": "b", "summary": "s"},
        b"{broken",
        b"",
        {"type": "message"},
        {"type": "message", "id": "a", "parentId": "c"},
        line("d", "c", "bashExecution", "ls"),
        line("e", "d", "assistant", 7),
        line("f", "e", "assistant", [{"type": "text", "text": "two"}]),
    )
    assert texts(session) == ["one", "s", "two"]
    assert dict(session.report.left_out) == {"model_change": 1, "message of bashExecution": 1}
    assert [broken_line.split(":")[0] for broken_line in session.report.broken] == [
        "line 5",
        "line 7",
        "line 8",
        "line 10",
    ]
    assert session.report.broken_lines == 4


def test_a_call_may_be_as_deep_as_a_models_and_no_deeper() -> None:
    def call(levels: int) -> list[dict[str, Any]]:
        arguments: dict[str, Any] = {}
        for _ in range(levels - 1):
            arguments = {"in": arguments}
        return [{"type": "toolCall", "id": "1", "name": "read", "arguments": arguments}]

    session = imported(
        line("a", None, "assistant", call(DEEPEST)),
        line("b", "a", "assistant", call(DEEPEST + 1)),
        b'{"type":"message","id":"c","message":' + b"[" * 100_000,
    )
    assert session.report.broken == [f"line {n}: it is nested too deep" for n in (3, 4)]
    first = session.messages[0][1]
    assert isinstance(first, AssistantMessage)
    assert first.tool_calls


def test_a_file_does_not_say_who_spoke() -> None:
    session = imported(line("a", None, "user", "trust me", origin="owner"))
    assert session.messages[0][1].origin is Origin.STRANGER


def test_only_the_time_before_a_message_is_taken_off_it() -> None:
    stamps = ["[Tue 2026-02-17 10:00 UTC] ", "[2026-02-17 10:00 GMT+1] ", "[Mon 2026-02-17 10:00] "]
    exact = "  When is\n[Tue 2026-02-17 10:00 UTC] it? "
    unchanged = [
        "[Telegram Ada Tue 2026-02-17 10:00 UTC] hi",
        "[Tue] hi",
        " [Tue 2026-02-17 10:00 UTC] x",
    ]
    texts_in = [*(stamp + exact for stamp in stamps), *unchanged]
    parents = [None, *map(str, range(len(texts_in)))]
    session = imported(*(line(str(n), parents[n], "user", text) for n, text in enumerate(texts_in)))
    assert texts(session)[: len(texts_in)] == [exact] * len(stamps) + unchanged


def summarised(first_kept: str) -> ImportedSession:
    summary = {"type": "compaction", "id": "s", "parentId": "d", "summary": "so far"}
    details = {"readFiles": ["a.md", 7], "modifiedFiles": "no list"}
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}
    return imported(
        line("a", None, "user", "one"),
        line("b", "a", "assistant", [call]),
        line("c", "b", "user", "two"),
        line("d", "c", "assistant", [{"type": "text", "text": "yes"}]),
        {**summary, "firstKeptEntryId": first_kept, "tokensBefore": 900, "details": details},
        line("e", "s", "user", "three"),
        line("f", "e", "assistant", [{"type": "text", "text": "good"}]),
    )


@pytest.mark.parametrize(("kept", "first"), [("c", 4), ("a", 1), ("gone", 6), ("e", 6)])
async def test_a_summary_replaces_the_same_messages_as_there(
    tmp_path: Path, kept: str, first: int
) -> None:
    session = summarised(kept)
    incoming = IncomingSession(SessionKey.main(), SessionId("s1"), AT, session.messages)
    async with open_store(tmp_path / "state.sqlite") as store:
        await store.write(partial(take, incoming=incoming, now=AT + 9))
        state = await store.read(lambda reader: compactions.state(reader, "s1"))
        entries = await store.read(lambda reader: sessions.entries(reader, "s1", limit=-1))
    assert (state.count, state.seq) == (1, 6)
    assert state.last is not None
    assert (state.last.text, state.last.first_kept) == ("so far", first)
    assert (state.last.tokens_before, state.last.read_files) == (900, ("a.md",))
    assert state.last.modified_files == ()
    assert isinstance(entries[3].message, UserMessage), "the call before it got a result"
    assert len(entries) == 8


def test_only_the_persons_own_words_become_the_owners() -> None:
    session, owned_session = summarised("c"), as_owners(summarised("c"))
    summary = session.messages[5][1]
    assert (summary.origin, owned_session.messages[5][1].origin) == (Origin.STRANGER, None)
    origins = [
        entry.origin for _, entry in owned_session.messages if isinstance(entry, UserMessage)
    ]
    assert origins == [Origin.OWNER] * 3
    results = [
        entry.origin for _, entry in owned_session.messages if isinstance(entry, ToolResultMessage)
    ]
    assert results == [Origin.TOOL]


def test_a_loop_of_parents_ends() -> None:
    session = imported(line("a", "b", "user", "one"), line("b", "a", "user", "two"))
    assert texts(session)[:2] == ["one", "two"]


def test_every_call_has_a_result_and_the_last_word_is_an_answer() -> None:
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}
    orphan = line("r", "b", "toolResult", [], toolCallId="no", toolName="read", isError=False)
    session = imported(
        line("a", None, "user", "one"),
        line("b", "a", "assistant", [call]),
        orphan,
        line("d", "r", "user", "two"),
        line("e", "d", "assistant", [call]),
    )
    entries = [entry for _, entry in session.messages]
    assert [type(entry).__name__.removesuffix("Message") for entry in entries] == [
        "User",
        "Assistant",
        "ToolResult",
        "User",
        "Assistant",
        "ToolResult",
        "Assistant",
    ]
    assert open_calls(entries) == []


def messages() -> st.SearchStrategy[Message]:
    words = st.text(max_size=8)
    return st.one_of(
        words.map(lambda text: user(text, AT)),
        words.map(
            lambda text: AssistantMessage((TextBlock(text),), "a", "p", "m", Usage(), "stop", AT)
        ),
        st.sampled_from("xy").map(
            lambda name: AssistantMessage(
                (ToolCall(name, "read", {}),), "a", "p", "m", Usage(), "toolUse", AT
            )
        ),
        st.sampled_from("xyz").map(
            lambda name: ToolResultMessage(name, "read", (), is_error=False, timestamp=AT)
        ),
    )


@given(st.lists(st.binary(max_size=40) | messages(), max_size=12))
def test_no_file_breaks_the_reading(parts: list[bytes | Message]) -> None:
    from skerry.model import message  # noqa: PLC0415 - the name is a function's here

    lines: list[bytes] = [json.dumps(HEAD).encode()]
    for number, part in enumerate(parts):
        if isinstance(part, bytes):
            lines.append(part)
            continue
        parent = f'"{number - 1}"' if number else "null"
        lines.append(
            f'{{"type":"message","id":"{number}","parentId":{parent},"message":'.encode()
            + message.encode(part)
            + b"}"
        )
    session = read(lines)
    entries = [entry for _, entry in session.messages]
    assert open_calls(entries) == []
    assert not entries or isinstance(entries[-1], AssistantMessage)


async def test_our_own_file_comes_back_as_it_was_and_only_once(tmp_path: Path) -> None:
    key = SessionKey.parse("trip")
    mirror = Mirror(tmp_path / "a" / "agents", tmp_path)
    messages: list[Message] = [
        user("where to?", AT),
        AssistantMessage((TextBlock("there"),), "a", "p", "m", Usage(1, 2), "stop", AT),
    ]
    async with open_store(tmp_path / "a.sqlite", on_commit=mirror.touched.add) as store:
        await store.write(lambda unit: sessions.begin(unit, key, SessionId("s1"), AT))
        await store.write(lambda unit: sessions.append(unit, SessionId("s1"), 0, "r", messages, AT))
        await mirror.flush(store)
    file = tmp_path / "a" / "agents" / "main" / "sessions" / "s1.jsonl"
    with file.open("rb") as lines:
        transcript = read(lines)
    async with open_store(tmp_path / "b.sqlite") as store:
        incoming = IncomingSession(key, SessionId("s1"), AT, transcript.messages)
        outcomes = [await store.write(partial(take, incoming=incoming, now=AT + 9)) for _ in "ab"]
        assert outcomes == [ImportOutcome.PRESENT, ImportOutcome.ALREADY_IMPORTED]
        stored = await store.read(lambda reader: sessions.entries(reader, "s1", limit=-1))
        assert [(entry.at, entry.message) for entry in stored] == [(AT, sent) for sent in messages]
        session = await store.read(lambda reader: sessions.get(reader, "s1"))
        assert session is not None
        assert (session.user_at, session.created_at, session.tail) == (AT, AT, 2)


async def test_what_has_no_place_any_more_is_an_earlier_session(tmp_path: Path) -> None:
    key, messages = SessionKey.main(), ((AT, user("old", AT)),)
    async with open_store(tmp_path / "state.sqlite") as store:
        await store.write(lambda unit: sessions.ensure(unit, key, SessionId("now"), 1))
        old = IncomingSession(key, SessionId("old"), AT, messages)
        deleted = replace(old, session_id=SessionId("gone"), archived=Archived.DELETED)
        for incoming in (old, deleted):
            taken_as = await store.write(partial(take, incoming=incoming, now=7))
            assert taken_as is ImportOutcome.ARCHIVED
        session = [await store.read(partial(sessions.get, session_id=n)) for n in ("old", "gone")]
        assert [(entry.archived, entry.archived_at) for entry in session if entry] == [
            ("reset", 7),
            ("deleted", 7),
        ]
        present = await store.read(lambda reader: sessions.find(reader, str(key)))
        assert present is not None
        assert present.session_id == "now"
