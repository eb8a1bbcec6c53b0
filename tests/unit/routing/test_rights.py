"""Rights of senders to commands; a sender that cannot be identified has none of the owner's."""

import pytest
from msgspec.structs import replace

from skerry.config.commands import CommandsConfig
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.model.rights import Rights
from skerry.routing.owner import rights


def message(sender: str, kind: PeerKind, channel: str = "telegram") -> InboundMessage:
    peer = Peer(kind, sender if kind is PeerKind.DIRECT else "family")
    return InboundMessage(ChannelId(channel), AccountId("main"), peer, sender, "/x", "1", 0)


def config(**values: object) -> CommandsConfig:
    return CommandsConfig.model_validate({"ownerAllowFrom": ["telegram:1"], **values})


@pytest.mark.parametrize(
    ("sender", "direct", "group"),
    [
        ("1", Rights.OWNER, Rights.OWNER),
        ("2", Rights.OPEN, Rights.NONE),
        ("", Rights.OPEN, Rights.NONE),
    ],
)
def test_without_a_list_only_the_owner_steers_and_in_groups_nobody_else_gives_any(
    sender: str, direct: Rights, group: Rights
) -> None:
    assert rights(message(sender, PeerKind.DIRECT), config()) is direct
    assert rights(message(sender, PeerKind.GROUP), config()) is group
    assert rights(message(sender, PeerKind.CHANNEL), config()) is group


def test_groups_may_be_opened() -> None:
    opened = config(useAccessGroups=False)
    assert rights(message("2", PeerKind.GROUP), opened) is Rights.OPEN


@pytest.mark.parametrize("kind", PeerKind)
@pytest.mark.parametrize(
    ("listed", "sender", "may"),
    [
        ({"telegram": ["2"]}, "2", Rights.LISTED),
        ({"Telegram": ["telegram:2"]}, "2", Rights.LISTED),
        ({"telegram": ["2"]}, "3", Rights.NONE),
        ({"telegram": ["2"]}, "1", Rights.NONE),
        ({"telegram": ["1"]}, "1", Rights.OWNER),
        ({"*": ["2"]}, "2", Rights.LISTED),
        ({"*": ["*"]}, "3", Rights.LISTED),
        ({"*": ["*"]}, "", Rights.NONE),
        ({"*": ["2"], "telegram": []}, "2", Rights.NONE),
        ({"*": ["discord:2"]}, "2", Rights.NONE),
        ({"discord": ["*"]}, "2", Rights.NONE),
        ({}, "1", Rights.NONE),
        ({"telegram": ["@a:b.org"]}, "@a:b.org", Rights.LISTED),
    ],
)
def test_a_list_decides_alone(
    kind: PeerKind, listed: dict[str, list[str]], sender: str, may: Rights
) -> None:
    assert rights(message(sender, kind), config(allowFrom=listed)) is may


def test_whose_id_nobody_vouches_for_is_not_the_owner() -> None:
    forged = replace(message("1", PeerKind.DIRECT), is_verified=False)
    assert rights(forged, config()) is Rights.OPEN
    assert rights(forged, config(allowFrom={"*": ["*"]})) is Rights.LISTED
