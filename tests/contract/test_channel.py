"""The contract of `ports.channel.ChannelAdapter`. A new platform adds a row to ROWS.

A row gives a platform in which a test can write as a person and read what arrived: the real adapter
of a platform over a server of ours that plays it. One whose server can fail is in TROUBLED too.
"""

from pathlib import Path
from typing import Final

import pytest

from skerry.infra.channels import PLATFORMS
from skerry.model.inbound import InboundMessage
from skerry.model.outbound import OutboundPart, Receipt, Settlement
from skerry.ports.channel import Capabilities, Inbox
from skerry.testing.channel import MemoryChannel
from tests.contract import channel_features, channels, offices, phones, towns
from tests.contract.channel_features import FEATURES, FeatureClause
from tests.contract.channels import CONTRACT, TROUBLES, Clause, Row, TroubledClause, TroubledRow
from tests.support import irc

TROUBLED: Final[dict[str, TroubledRow]] = {
    "discord": towns.discord,
    "email": towns.email,
    "googlechat": offices.google_chat,
    "imessage": phones.imessage,
    "msteams": offices.teams,
    "signal": phones.signal,
    "signal-rest": phones.signal_rest,
    "slack": towns.slack,
    "telegram": towns.telegram,
    "whatsapp": phones.whatsapp,
}
ROWS: Final[dict[str, Row]] = {"folder": towns.folder, **TROUBLED}


PARAMETERS: Final = (
    *(pytest.param(row, id=name) for name, row in ROWS.items()),
    pytest.param(irc.town, id="irc", marks=pytest.mark.full("ngircd")),
)


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("row", PARAMETERS)
async def test_an_adapter_keeps_the_contract(row: Row, clause: Clause, tmp_path: Path) -> None:
    async with row(tmp_path) as town:
        await clause(town)


@pytest.mark.parametrize("clause", TROUBLES, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("row", TROUBLED.values(), ids=TROUBLED)
async def test_an_adapter_survives_its_platform(
    row: TroubledRow, clause: TroubledClause, tmp_path: Path
) -> None:
    async with row(tmp_path) as town:
        await clause(town)


@pytest.mark.parametrize("clause", FEATURES, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("row", TROUBLED.values(), ids=TROUBLED)
async def test_an_adapter_does_what_it_names(
    row: TroubledRow, clause: FeatureClause, tmp_path: Path
) -> None:
    async with row(tmp_path) as town:
        await clause(town, tmp_path)


@pytest.mark.requirement("gateway-channel-set")
@pytest.mark.parametrize(
    "name",
    [
        *("whatsapp", "telegram", "slack", "discord", "googlechat", "signal", "imessage"),
        *("msteams", "matrix"),
    ],
)
def test_each_platform_of_the_seed_is_there_and_is_tried(name: str) -> None:
    assert callable(PLATFORMS[name].load("adapter:open_account"))
    assert name in TROUBLED or name == "matrix", "Matrix is tried at a real homeserver"


class Eager(MemoryChannel):
    """Acknowledges before the inbox has taken a message."""

    async def run(self, inbox: Inbox) -> None:
        async def late(message: InboundMessage) -> None:
            self.platform.acknowledge(self.platform.acknowledged() + 1)
            await inbox(message)

        await MemoryChannel.run(self, late)


class Sure(MemoryChannel):
    """Takes every part for delivered."""

    async def settle(self, part: OutboundPart) -> Settlement:
        del part
        return Settlement.DELIVERED


class Lazy(MemoryChannel):
    """Returns before the platform has the part."""

    async def send(self, part: OutboundPart) -> Receipt:
        return Receipt((part.nonce,))


@pytest.mark.parametrize(
    ("defect", "clause"),
    [
        (Eager, channels.acknowledges_nothing_that_was_not_taken),
        (Sure, channels.settles_no_part_for_delivered_that_is_not_there),
        (Lazy, channels.delivers_a_part_before_it_returns),
    ],
)
async def test_an_adapter_with_a_defect_breaks_it(
    defect: type[MemoryChannel], clause: Clause, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError):
        await clause(towns.Folder(tmp_path, defect))


class Boastful(MemoryChannel):
    """Names edits, and cannot make any."""

    capabilities = Capabilities(edits=True)


async def test_an_adapter_that_names_too_much_breaks_it(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        await channel_features.has_the_methods_of_what_it_names(
            towns.Folder(tmp_path, Boastful), tmp_path
        )
