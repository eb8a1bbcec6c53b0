"""Pruning of a request: tested at its bytes, with the transcript unchanged."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from skerry.config.agents import AgentDefaults, AgentsConfig
from skerry.config.context_limits import Compaction, ContextPruning
from skerry.features.anthropic_messages.provider import AnthropicProvider
from skerry.infra.http import HttpClient
from skerry.model import message
from skerry.model.message import AssistantMessage, TextBlock, ToolCall, ToolResultMessage, Usage
from skerry.ports.model import History
from skerry.providers.streaming_call import Endpoint
from skerry.sessions.window import MessageOverlay, budget, fit, prune, shorten
from skerry.testing.clock import FakeClock
from skerry.testing.model import MODEL
from skerry.testing.model_server import StubModelServer
from tests.support.core import open_core

CLAUDE = replace(
    MODEL, provider="anthropic", id="claude", api="anthropic-messages", context_window=30_000
)
BIG = "".join(f"line {number}\n" for number in range(1500))
MINUTE = 60_000


def answers(body: dict[str, Any]) -> list[Any]:
    last = body["messages"][-1]["content"][-1]
    if last["type"] == "text" and last["text"].startswith("read"):
        return [ToolCall(f"c{len(body['messages'])}", "read", {"path": "big.txt", "lines": 2000})]
    return ["done"]


def results(body: dict[str, Any]) -> list[str]:
    """Returns the texts of the tool results in the body of a request."""
    texts = []
    for entry in body["messages"]:
        for block in entry["content"]:
            if block["type"] == "tool_result":
                content = block["content"]
                texts.append(content if isinstance(content, str) else content[0]["text"])
    return texts


async def conversation(
    home: Path, pruning: ContextPruning, pause: int
) -> tuple[list[dict[str, Any]], list[message.Message]]:
    """Reads a large file, talks, waits, talks again; returns the bodies and the messages."""
    agents = AgentsConfig(
        defaults=AgentDefaults(context_pruning=pruning, compaction=Compaction(enabled=False))
    )
    clock = FakeClock(1_784_000_000_000)
    async with (
        StubModelServer(answers) as server,
        HttpClient() as http,
        open_core(
            home,
            AnthropicProvider(http, Endpoint("anthropic", server.base_url, "key")),
            clock=clock,
            agents=agents,
        ) as core,
    ):
        core.models.info = CLAUDE
        (core.workspace / "big.txt").write_text(BIG)
        for text in ("read it", "one", "two", "three"):
            await core.ask(text)
        clock.advance(pause)
        for text in ("four", "five"):
            await core.ask(text)
        return [message.body for message in server.requests], await core.transcript()


@pytest.mark.requirement("pruning-mode-cache-ttl")
@pytest.mark.requirement("pruning-in-memory-only")
@pytest.mark.requirement("pruning-config-path")
async def test_after_the_ttl_old_results_are_sent_shortened_and_stay_so(tmp_path: Path) -> None:
    pruning = ContextPruning(mode="cache-ttl", soft_trim_ratio=0.05)
    bodies, messages = await conversation(tmp_path, pruning, 6 * MINUTE)
    whole, four, five = bodies[-3], bodies[-2], bodies[-1]
    assert len(results(whole)[0]) > 12_000
    assert "[Tool result trimmed: kept first 1500 chars" in results(four)[0]
    assert results(five) == results(four)  # the cache of the request before counts
    (stored,) = [message.text for message in messages if isinstance(message, ToolResultMessage)]
    assert stored == results(whole)[0]


@pytest.mark.requirement("pruning-mode-cache-ttl")
async def test_within_the_ttl_nothing_is_pruned(tmp_path: Path) -> None:
    pruning = ContextPruning(mode="cache-ttl", soft_trim_ratio=0.05)
    bodies, _ = await conversation(tmp_path, pruning, 4 * MINUTE)
    assert len({results(body)[0] for body in bodies[1:]}) == 1


@pytest.mark.requirement("pruning-mode-off-default")
async def test_by_default_nothing_is_pruned(tmp_path: Path) -> None:
    bodies, _ = await conversation(tmp_path, ContextPruning(soft_trim_ratio=0.05), 9 * MINUTE)
    assert len({results(body)[0] for body in bodies[1:]}) == 1
    assert ContextPruning().mode == "off"


OPENAI, CLAUDES = "openai-completions", "anthropic-messages"


@pytest.mark.requirement("pruning-mode-cache-ttl")
@pytest.mark.parametrize(
    ("answered", "now_time", "pruned"),
    [(CLAUDES, CLAUDES, True), (CLAUDES, OPENAI, False), (OPENAI, OPENAI, False)],
)
def test_other_providers_keep_no_cache_that_expires(
    answered: str, now_time: str, *, pruned: bool
) -> None:
    call = ToolCall("1", "read", {})
    answer = AssistantMessage((call,), answered, "p", "m", Usage(), "toolUse", 2)
    result = ToolResultMessage("1", "read", (TextBlock("long " * 3000),), False, 3)  # noqa: FBT003
    next_answer = replace(answer, content=(TextBlock("so"),), stop_reason="stop", timestamp=4)
    history = History([message.user("hi", 1), answer, result, *[next_answer] * 4])
    view = MessageOverlay()
    pruning = ContextPruning(mode="cache-ttl", soft_trim_ratio=0.0)
    prune(history, view, pruning, replace(MODEL, api=now_time), 10**12)
    assert (view.of(history) is not history) is pruned


@pytest.mark.requirement("models-limits-enforced")
def test_no_message_takes_more_than_its_share_of_the_window() -> None:
    limits = budget(8192, 1000, Compaction())
    long = ToolResultMessage("c", "read", (TextBlock("x" * 100_000),), is_error=False, timestamp=1)
    history = History([message.user("y" * 100_000, 1), long, message.user("short", 1)])
    view = MessageOverlay()
    shorten(history, view, limits)
    sent = view.of(history)
    assert len(sent.messages[1].text) < limits.max_chars * 1.1
    assert len(sent.messages[0].text) < limits.max_chars * 2.1
    assert sent.messages[2] is history.messages[2]
    assert history.messages[1] is long
    assert fit(history.messages[2], 10) is history.messages[2]
