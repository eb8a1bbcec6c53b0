"""Blocks of an answer and `kill -9`: the platform's log and the page have one whole answer."""

import signal
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.cli.render import text_of
from skerry.client.client import GatewayClient
from skerry.runtime.continuation import GO_ON
from skerry.testing.channel import FakePlatform
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import HttpStep, StubModelServer
from tests.support.chaos import disagreements, until

PARAGRAPHS = [f"Paragraph {number} of the answer to a question." for number in range(1, 7)]
CODE = "```py\n" + "\n".join(f"line_{number} = {number}" for number in range(12)) + "\n```"
ANSWER = "\n\n".join([*PARAGRAPHS, CODE, "The end."])
CONFIG = {
    "blockStreamingDefault": "on",
    "blockStreamingChunk": {"minChars": 40, "maxChars": 120},
    "blockStreamingCoalesce": {"idleMs": 0},
}


def answers(body: dict[str, Any]) -> list[HttpStep]:
    """Answers m1 at length, go on where that was cut off, and says one word to everything else."""
    *before, last = [str(message["content"]) for message in body["messages"]]
    if last == GO_ON:
        assert ANSWER.startswith(before[-1])
        return [ANSWER[len(before[-1]) :]]
    return [ANSWER] if "m1" in last else ["Yes."]


def words(texts: list[str]) -> list[str]:
    """Returns the words of the texts, without the added lines of code fences."""
    return [word for text in texts for word in text.split() if not word.startswith(("```", "~~~"))]


async def answers_shown(gateway: GatewayProcess) -> list[str]:
    """Returns the answers that a page shows of the one conversation."""
    async with GatewayClient(gateway.address) as client:
        listed = await client.request("sessions.list")
        (key,) = [session["key"] for session in listed["sessions"]]
        payload = await client.request("chat.history", {"sessionKey": key})
    assert "inFlightRun" not in payload
    return [text_of(message) for message in payload["messages"] if message["role"] == "assistant"]


async def killed(gateway: GatewayProcess) -> None:
    with anyio.fail_after(60):
        assert await gateway.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    "fault",
    [
        "store.before-commit:4",
        "delivery.before-send:1",
        "delivery.after-send:1",
        "store.after-commit:7",
        "delivery.before-send:3",
        "delivery.after-send:5",
    ],
)
async def test_a_kill_between_blocks_repeats_and_loses_nothing(tmp_path: Path, fault: str) -> None:
    platform = FakePlatform(tmp_path / "platform")
    async with (
        StubModelServer(answers, events_per_text=60, delay=0.01) as model,
        running_gateway(
            model=model.base_url,
            home=tmp_path / "home",
            config={"agents": {"defaults": CONFIG}},
            arguments=["--platform", str(platform.folder)],
            first=("--fault", fault),
        ) as gateway,
    ):
        platform.say("m1", message_id="m1")
        await killed(gateway)
        await gateway.start()

        def ended() -> bool:
            last = platform.received()[-1:]
            return bool(last) and last[0].text.endswith("The end.")

        await until(ended)
        platform.say("m2", message_id="m2")
        await until(lambda: platform.received()[-1].text == "Yes.")
        shown = await answers_shown(gateway)
        assert await gateway.stop() == 0
        received = platform.received()
        assert len({message.nonce for message in received}) == len(received)
        texts = [message.text for message in received if message.in_reply_to == "m1"]
        assert words(texts) == words([ANSWER])
        assert [words([one]) for one in shown] == [words([ANSWER]), ["Yes."]]
        assert await disagreements(gateway.home) == []


async def test_without_a_kill_the_blocks_are_the_answer(tmp_path: Path) -> None:
    platform = FakePlatform(tmp_path / "platform")
    async with (
        StubModelServer(answers, events_per_text=60, delay=0.002) as model,
        running_gateway(
            model=model.base_url,
            home=tmp_path / "home",
            config={"agents": {"defaults": CONFIG}},
            arguments=["--platform", str(platform.folder)],
        ) as gateway,
    ):
        platform.say("m1", message_id="m1")
        await until(lambda: platform.received()[-1:] and "end" in platform.received()[-1].text)
        texts = [message.text for message in platform.received()]
        assert len(texts) > 5
        assert words(texts) == words([ANSWER])
        assert all(text.count("```") in {0, 2} for text in texts)
        assert platform.typed()[:1] == ["alice"]
        assert await gateway.stop() == 0
        assert await disagreements(gateway.home) == []


async def test_a_client_reads_one_whole_answer_after_a_kill_in_its_middle() -> None:
    replies: list[list[HttpStep]] = [["Half of ", ReplyGate()], ["All of it."]]
    async with (
        StubModelServer(lambda _: replies.pop(0)) as model,
        running_gateway(model=model.base_url) as gateway,
    ):
        where = {"sessionKey": "main"}
        params = {**where, "message": "hello", "idempotencyKey": "k1"}
        with anyio.fail_after(60):
            async with GatewayClient(gateway.address) as client:
                with client.subscribe() as events:
                    await client.request("chat.send", params)
                    async for event in events:
                        payload = event.payload
                        if (
                            isinstance(payload, dict)
                            and text_of(payload.get("message")) == "Half of "
                        ):
                            break
        await gateway.kill()
        await gateway.start()
        async with GatewayClient(gateway.address) as client:
            with anyio.fail_after(60):
                sent = await client.request("chat.send", params)  # as a client does that comes back
                assert sent["status"] in {"in_flight", "ok"}
                waited = await client.request("agent.wait", {"runId": "k1", "timeoutMs": 60_000})
            assert waited["status"] == "ok"
            found = await client.request("chat.history", where)
        assert [text_of(message) for message in found["messages"]] == ["hello", "All of it."]
        assert "inFlightRun" not in found
