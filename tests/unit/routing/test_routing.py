"""Session keys of platform messages: no person reads the conversation of another."""

from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.config.session import SessionConfig
from skerry.model.ids import AccountId, AgentId, ChannelId, SessionKey, SessionKind
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.routing.owner import is_owner
from skerry.routing.routing import session_key

MAIN = AgentId("main")
OWNERS = ("telegram:7", "Signal:+15550001")
SCOPES = ("per-peer", "per-channel-peer", "per-account-channel-peer")


def message(  # noqa: PLR0913 - each has a default; a test names what it needs
    peer: str,
    kind: PeerKind = PeerKind.DIRECT,
    *,
    channel: str = "telegram",
    account: str = "default",
    thread: str | None = None,
    sender: str | None = None,
    message_id: str = "m1",
) -> InboundMessage:
    return InboundMessage(
        ChannelId(channel),
        AccountId(account),
        Peer(kind, peer),
        peer if sender is None else sender,
        "hi",
        message_id,
        0,
        thread,
    )


def key(message_: InboundMessage, **session: Any) -> str:
    config = SessionConfig.model_validate(session)
    session_key_ = session_key(message_, MAIN, config, is_owner=is_owner(message_, OWNERS))
    assert SessionKey.parse(str(session_key_)) == session_key_
    return str(session_key_).removeprefix("agent:main:")


@pytest.mark.parametrize(
    ("kind", "peer", "thread", "expected"),
    [
        (PeerKind.DIRECT, "8", None, "telegram:direct:8"),
        (PeerKind.DIRECT, "8", "t", "telegram:direct:8"),
        (PeerKind.GROUP, "-100", None, "telegram:group:-100"),
        (PeerKind.GROUP, "-100", "4", "telegram:group:-100:thread:4"),
        (PeerKind.CHANNEL, "News", None, "telegram:channel:news"),
    ],
)
def test_every_chat_has_a_conversation_of_its_own(
    kind: PeerKind, peer: str, thread: str | None, expected: str
) -> None:
    assert key(message(peer, kind, thread=thread)) == expected


@pytest.mark.requirement("session-dm-scope-main")
def test_the_owner_s_direct_chats_share_main_and_nobody_else_s_do() -> None:
    assert key(message("7")) == key(message("+15550001", channel="signal")) == "main"
    assert key(message("8")) == "telegram:direct:8"
    assert key(message("7", channel="discord")) == "discord:direct:7"


@pytest.mark.requirement("session-dm-scope-main")
def test_main_for_everybody_is_what_the_configuration_must_say() -> None:
    assert key(message("8"), dmScope="main") == key(message("7"), dmScope="main") == "main"


@pytest.mark.requirement("session-dm-scope-per-peer")
def test_per_peer_one_id_is_one_conversation_over_all_platforms() -> None:
    assert key(message("8"), dmScope="per-peer") == "direct:8"
    assert key(message("8", channel="discord"), dmScope="per-peer") == "direct:8"
    assert key(message("9"), dmScope="per-peer") == "direct:9"


@pytest.mark.requirement("session-dm-scope-per-channel-peer")
def test_per_channel_peer_each_platform_has_its_own() -> None:
    scope = {"dmScope": "per-channel-peer"}
    assert key(message("8"), **scope) == "telegram:direct:8"
    assert key(message("8", account="work"), **scope) == "telegram:direct:8"
    assert key(message("8", channel="discord"), **scope) == "discord:direct:8"


@pytest.mark.requirement("session-dm-scope-per-account-channel-peer")
def test_per_account_channel_peer_each_account_has_its_own() -> None:
    scope = {"dmScope": "per-account-channel-peer"}
    assert key(message("8"), **scope) == "telegram:default:direct:8"
    assert key(message("8", account="work"), **scope) == "telegram:work:direct:8"
    assert key(message("8", channel="discord"), **scope) == "discord:default:direct:8"


@pytest.mark.parametrize("scope", [None, *SCOPES])
def test_two_persons_never_share_a_direct_chat(scope: str | None) -> None:
    session_config = {"dmScope": scope} if scope else {}
    names = ("8", "9", "main", "agent:main:main", ":main", "direct:8", "8:thread:1", "8:", "%38")
    keys = [key(message(name), **session_config) for name in names]
    assert len(set(keys)) == len(names)
    assert "main" not in keys


@pytest.mark.parametrize("scope", [None, *SCOPES])
def test_somebody_without_an_id_shares_with_nobody(scope: str | None) -> None:
    session_config = {"dmScope": scope} if scope else {}
    first, second = (message("", message_id=each) for each in ("m1", "m2"))
    assert "main" not in {key(first, **session_config), key(second, **session_config)}
    assert key(first, **session_config) != key(second, **session_config)
    assert key(message("", sender="8"), **session_config) == key(message("8"), **session_config)


def test_groups_without_an_id_share_nothing() -> None:
    first, second = (message("", PeerKind.GROUP, message_id=each) for each in ("m1", "m2"))
    assert key(first) != key(second)


def test_the_owner_in_a_group_is_in_the_group_s_conversation() -> None:
    assert key(message("-100", PeerKind.GROUP, sender="7")) == "telegram:group:-100"


@pytest.mark.requirement("session-identity-links")
@pytest.mark.parametrize("scope", [None, *SCOPES])
@pytest.mark.parametrize("written", ["telegram:AB8", "Telegram:ab8", " telegram:Ab8 "])
def test_linked_accounts_of_one_person_share_whatever_the_case(
    scope: str | None, written: str
) -> None:
    session_config: dict[str, Any] = {"identityLinks": {"alice": [written, "discord:9"]}}
    if scope:
        session_config["dmScope"] = scope
    assert key(message("aB8"), **session_config) == key(
        message("9", channel="discord"), **session_config
    )
    assert key(message("aB8"), **session_config) == "direct:alice"
    assert key(message("9"), **session_config) != "direct:alice"


@pytest.mark.requirement("session-identity-links")
@pytest.mark.parametrize("scope", [None, *SCOPES])
def test_nobody_becomes_a_linked_person_by_taking_the_name(scope: str | None) -> None:
    session_config: dict[str, Any] = {"identityLinks": {"Alice": ["telegram:8"]}}
    if scope:
        session_config["dmScope"] = scope
    assert key(message("alice"), **session_config) != key(message("8"), **session_config)
    assert key(message("ALICE", channel="irc"), **session_config) != key(
        message("8"), **session_config
    )


def test_links_do_not_part_what_main_shares() -> None:
    session_config: dict[str, Any] = {"identityLinks": {"me": ["telegram:7"]}}
    assert key(message("7"), **session_config) == "main"


def test_the_global_scope_puts_everybody_into_one() -> None:
    chats = (message("8"), message("7"), message("-100", PeerKind.GROUP, thread="4"))
    assert {key(chat, scope="global") for chat in chats} == {"global"}


def test_threads_of_a_group_are_conversations_of_their_own() -> None:
    threads = [message("g", PeerKind.GROUP, thread=each) for each in ("1", "2", None)]
    assert len({key(thread) for thread in threads}) == 3
    trick = message("g:thread:1", PeerKind.GROUP)
    assert key(trick) not in {key(thread) for thread in threads}


def test_only_the_exact_id_on_the_right_platform_is_the_owner() -> None:
    owners = ("telegram:AB7",)
    assert is_owner(message("AB7"), owners)
    assert is_owner(message("AB7", channel="Telegram"), owners)
    for other in (
        message("ab7"),
        message("AB7", channel="discord"),
        message(""),
        message("AB7", sender=""),
        message("AB7", sender="x"),
        message("telegram:AB7"),
    ):
        assert not is_owner(other, owners)
    assert not is_owner(message("AB7"), ())


ids = st.text(max_size=200) | st.text("ab:%direcothgupmn /AB\uff11\uff1a\ud800", max_size=12)


@given(st.lists(ids, min_size=2, max_size=6, unique=True), st.sampled_from([None, *SCOPES]))
def test_different_ids_have_different_keys(names: list[str], scope: str | None) -> None:
    session_config = {"dmScope": scope} if scope else {}
    ascii_case = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
    for name, other_name in combinations(names, 2):
        if name.translate(ascii_case) == other_name.translate(ascii_case):
            continue
        first, second = message(name), message(other_name, message_id="m2")
        assert key(first, **session_config) != key(second, **session_config)
        assert (
            SessionKey.parse("agent:main:" + key(first, **session_config)).kind
            is SessionKind.DIRECT
        )
