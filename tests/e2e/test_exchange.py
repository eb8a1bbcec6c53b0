"""Exchanges of two conversations over a whole gateway: turns, the announcement, kills."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel
import pytest

from skerry.client.client import GatewayClient
from skerry.model.message import ToolCall
from skerry.ports.model import ModelRequest
from skerry.testing.model import ScriptedModel, ScriptedModels, Step, last_text
from tests.support.chaos import until
from tests.support.moments import Life, Moments, life

ASKER: Final = "agent:main:work"
MAIN: Final = "agent:main:main"
CONFIG: Final[dict[str, Any]] = {
    "tools": {"profile": "full", "sessions": {"visibility": "all"}},
    "commands": {"ownerAllowFrom": ["memory:ann"]},
    "session": {"dmScope": "main", "agentToAgent": {"maxPingPongTurns": 2}},
}
NEWS: Final = "Work asked for the tide."
POINTS: Final = (
    "exchange.before-step:1",
    "exchange.step:1",
    "exchange.before-step:3",
    "exchange.step:3",
)


def answers(request: ModelRequest) -> Sequence[Step]:
    """Answers as two conversations that ask each other for the tide."""
    text = last_text(request)
    if text == "ask main":
        return [ToolCall("c1", "sessions_send", {"sessionKey": MAIN, "message": "tide?"})]
    if "The exchange is over" in text:
        return [NEWS]
    if text.startswith("[Message of session"):
        return ["at four" if ASKER in text.splitlines()[0] else "thanks"]
    return ["hello"]


def models() -> ScriptedModels:
    return ScriptedModels(ScriptedModel(answers))


async def begun(living: Life) -> None:
    """Has the owner write on the platform, and ask from another conversation."""
    living.platform.say("hello", peer="ann", message_id="m1")
    await until(lambda: len(living.platform.received()) == 1, living.platform.received)
    async with GatewayClient(living.address) as client:
        params = {"sessionKey": ASKER, "message": "ask main", "idempotencyKey": "k1"}
        await client.request("chat.send", params)


async def over(living: Life) -> list[str]:
    """Waits for the announcement; returns the message that the other conversation received."""
    await until(lambda: news(living) == 1, living.platform.received)
    with anyio.fail_after(60):
        while living.gateway.dispatch.active():
            await anyio.lowlevel.checkpoint()
    async with GatewayClient(living.address) as client:
        history = await client.request("chat.history", {"sessionKey": ASKER})
    texts = [
        "".join(part.get("text", "") for part in message["content"])
        for message in history["messages"]
        if message["role"] == "user"
    ]
    return [text for text in texts if text.startswith("[Message of session")]


def news(living: Life) -> int:
    """Returns the number of messages that the person received."""
    return sum(message.text == NEWS for message in living.platform.received())


async def test_the_person_of_the_conversation_that_was_asked_is_told(tmp_path: Path) -> None:
    async with life(tmp_path, models=models(), config=CONFIG) as living:
        await begun(living)
        (turn,) = await over(living)
        assert "at four" in turn
        texts = [message.text for message in living.platform.received()]
    assert texts == ["hello", NEWS]


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> Moments:
    """A life in which two conversations speak, at each step."""
    folder = tmp_path_factory.mktemp("exchange")
    kept = Moments(folder / "now", folder / "moments", frozenset(POINTS))

    async def run() -> None:
        async with life(kept.folder, kept.reach, models(), CONFIG) as living:
            kept.turn = living.gateway.context.store._writer.turn
            await begun(living)
            await over(living)
            assert kept.reached == kept.wanted

    anyio.run(run)
    return kept


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_any_step_loses_no_turn_and_doubles_none(
    tmp_path: Path, moments: Moments, point: str
) -> None:
    folder = shutil.copytree(moments[point], tmp_path / "copy")
    async with life(folder, models=models()) as second:
        assert len(await over(second)) == 1
    async with life(folder, models=models()) as third:
        assert len(await over(third)) == 1
        assert news(third) == 1
