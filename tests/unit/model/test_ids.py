"""Session keys and agent ids: every kind, every spelling, every refusal."""

import pytest

from skerry.model.errors import InvalidSessionKeyError
from skerry.model.ids import MAIN_AGENT, MAX_KEY_LENGTH, AgentId, SessionKey, SessionKind, agent_id

WORK = AgentId("work")


def printed(text: str) -> str:
    return str(SessionKey.parse(text))


@pytest.mark.requirement("session-key-main")
@pytest.mark.requirement("session-primary-direct")
@pytest.mark.parametrize("text", ["", "main", "agent:main:main", " MAIN ", "::"])
def test_the_primary_conversation_of_the_main_agent_has_one_key(text: str) -> None:
    assert printed(text) == "agent:main:main"
    assert SessionKey.parse(text) == SessionKey.main()
    assert SessionKey.parse(text).kind is SessionKind.MAIN


def test_a_key_without_an_agent_belongs_to_the_one_that_is_asked() -> None:
    assert str(SessionKey.parse("", WORK)) == "agent:work:main"
    assert str(SessionKey.parse("cron:daily", WORK)) == "agent:work:cron:daily"
    assert str(SessionKey.parse("agent:home:main", WORK)) == "agent:home:main"


@pytest.mark.requirement("session-key-per-peer")
def test_dm_is_read_as_direct_for_a_peer() -> None:
    assert printed("agent:main:dm:alice") == "agent:main:direct:alice"
    assert SessionKey.parse("agent:main:direct:alice").kind is SessionKind.DIRECT


@pytest.mark.requirement("session-key-per-channel-peer")
@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("agent:main:telegram:dm:7", "agent:main:telegram:direct:7"),
        ("agent:main:telegram:bot2:dm:7", "agent:main:telegram:bot2:direct:7"),
        ("agent:main:telegram:group:dm:x", "agent:main:telegram:group:dm:x"),
        ("agent:main:telegram:direct:dm:x", "agent:main:telegram:direct:dm:x"),
        ("agent:main:dm", "agent:main:dm"),
        ("agent:main:a:b:c:dm:x", "agent:main:a:b:c:dm:x"),
    ],
)
def test_dm_is_read_as_direct_only_as_a_peer_kind(written: str, key: str) -> None:
    assert printed(written) == key


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("agent:main:telegram:direct:7", SessionKind.DIRECT),
        ("agent:main:telegram:bot2:direct:7", SessionKind.DIRECT),
        ("agent:main:telegram:channel:news", SessionKind.CHANNEL),
        ("agent:main:main:thread:1", SessionKind.OTHER),
        ("agent:main:notes", SessionKind.OTHER),
        ("agent:main:a:b:c:direct:x", SessionKind.OTHER),
    ],
)
def test_a_key_knows_its_kind(text: str, kind: SessionKind) -> None:
    assert SessionKey.parse(text).kind is kind


@pytest.mark.requirement("session-key-group")
def test_a_group_has_a_key_of_its_own() -> None:
    key = SessionKey.parse("agent:main:telegram:group:-100")
    assert (str(key), key.kind) == ("agent:main:telegram:group:-100", SessionKind.GROUP)


def test_a_cron_job_is_named_without_its_agent() -> None:
    key = SessionKey.parse("cron:daily")
    assert (key.scope, key.kind) == (("cron", "daily"), SessionKind.CRON)


def test_a_webhook_is_named_without_its_agent() -> None:
    key = SessionKey.parse("hook:0f0e")
    assert (key.scope, key.kind) == (("hook", "0f0e"), SessionKind.HOOK)


def test_a_node_is_named_without_its_agent() -> None:
    key = SessionKey.parse("node-phone")
    assert (key.scope, key.kind) == (("node-phone",), SessionKind.NODE)


def test_a_subagent_has_a_key_below_its_agent() -> None:
    key = SessionKey.parse("agent:work:subagent:0f0e")
    assert (key.agent, key.kind) == (WORK, SessionKind.SUBAGENT)


@pytest.mark.parametrize(
    "spelling",
    [
        "AGENT:MAIN:TELEGRAM:DIRECT:BOB",
        "agent:main:\uff54\uff45\uff4c\uff45\uff47\uff52\uff41\uff4d:direct:bob",
        "\uff41\uff47\uff45\uff4e\uff54:main:telegram:direct:bob",
        "agent\uff1amain\uff1atelegram\uff1adirect\uff1abob",
        "agent:main:telegram:direct:\U0001d41b\U0001d428\U0001d41b",
        "agent::main:telegram::direct:bob:",
        "  agent:main:telegram:dm:bob\t",
    ],
)
def test_no_look_alike_spelling_names_a_second_conversation(spelling: str) -> None:
    # A tab at the end is stripped; within the key it is refused, see below.
    assert printed(spelling) == "agent:main:telegram:direct:bob"


def test_case_folding_is_that_of_unicode() -> None:
    assert SessionKey.parse("STRASSE") == SessionKey.parse("straße")


def test_a_key_is_folded_until_nothing_changes() -> None:
    key = SessionKey.parse("ß\u0301")
    assert SessionKey.parse(str(key)) == key


@pytest.mark.parametrize("mark", ["\0", "\n", "\x1b", "\u200b", "\u202e", "\ufeff", "\ud800"])
def test_invisible_and_control_characters_are_refused(mark: str) -> None:
    with pytest.raises(InvalidSessionKeyError, match="invisible"):
        SessionKey.parse(f"agent:main:a{mark}b")


@pytest.mark.parametrize(
    "text",
    [
        "agent:",
        "agent:main",
        "agent::main",
        "agent:-x:main",
        "agent:../..:main",
        "agent:a b:main",
        "agent:" + "x" * 65 + ":main",
        "agent:ä:main",
    ],
)
def test_a_malformed_agent_key_is_refused_and_never_taken_for_a_name(text: str) -> None:
    with pytest.raises(InvalidSessionKeyError):
        SessionKey.parse(text)


def test_a_key_may_be_long_but_not_endless() -> None:
    assert len(printed("agent:main:" + "x" * (MAX_KEY_LENGTH - 11))) == MAX_KEY_LENGTH
    with pytest.raises(InvalidSessionKeyError, match="over 512"):
        SessionKey.parse("x" * (MAX_KEY_LENGTH + 1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("main", "main"),
        (" Work ", "work"),
        ("My Agent!", "my-agent"),
        ("--x--", "x"),
        ("_x", "x"),
        ("", MAIN_AGENT),
        ("!!!", MAIN_AGENT),
        ("ä", MAIN_AGENT),
        ("x" * 70, "x" * 64),
        ("0_-", "0_-"),
    ],
)
def test_an_agent_id_is_made_of_any_text(text: str, expected: str) -> None:
    assert agent_id(text) == expected
