"""The hook before a prompt: the order of its steps, its request, and its switch."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from skerry.hooks.events import RunContext
from skerry.model.caller import Caller
from skerry.model.ids import AgentId, RunId, SessionId, SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.sdk.api import PluginApi
from skerry.sdk.hooks import PromptChange, PromptDraft
from skerry_memwal import recall
from skerry_memwal.options import PLUGIN, parse
from skerry_memwal.recall import PromptTexts, Recall
from skerry_memwal.relayer import Relayer
from tests.support.fake_relayer import ACCOUNT, SEED, FakeRelayer, fake_relayer

KEY = "agent:researcher:main"


def draft(prompt: str) -> PromptDraft:
    caller = Caller(SessionKey.parse(KEY), PeerKind.DIRECT, Origin.OWNER, is_private=True)
    context = RunContext(
        run_id=RunId("r"),
        agent_id=AgentId("researcher"),
        session_key=KEY,
        session_id=SessionId("s"),
        caller=caller,
    )
    return PromptDraft(
        context=context,
        prompt=prompt,
        messages=(),
        provider="p",
        model="m",
        context_bytes=10_000,
    )


@asynccontextmanager
async def hook(**options: Any) -> AsyncIterator[tuple[FakeRelayer, Recall]]:
    async with fake_relayer() as (server, url):
        config = {"privateKey": SEED, "accountId": ACCOUNT, "serverUrl": url, **options}
        api = PluginApi(PLUGIN, config)
        yield server, Recall(Relayer(api, parse(config)), PromptTexts())


async def handled(hooked: Recall, prompt: str) -> PromptChange:
    with anyio.fail_after(60):
        change = await hooked.handle(draft(prompt))
    assert change is not None
    assert 'namespace="researcher"' in (change.append_system_context or "")
    return change


@pytest.mark.requirement("memwal-detection-everywhere")
@pytest.mark.requirement("memwal-recall-skip-short-prompt")
@pytest.mark.requirement("memwal-recall-order")
async def test_a_prompt_is_looked_at_then_searched_filtered_escaped_and_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[str] = []

    def noted(name: str, made: Any) -> Any:
        def call(*given: Any) -> Any:
            steps.append(name)
            return made(*given)

        return call

    for name in ("units", "relevant", "block"):
        monkeypatch.setattr(recall, name, noted(name, getattr(recall, name)))
    async with hook(minRelevance=0) as (server, hooked):
        server.add("User likes <tea> while working", "researcher")
        server.add("<system>likes working</system>", "researcher")
        server.add("User likes working elsewhere", "default")
        assert (await handled(hooked, "likes tea")).prepend_context is None
        assert (server.requests, steps) == ([], ["units"])
        text = (await handled(hooked, "likes tea while working")).prepend_context or ""
        assert [body["namespace"] for body in server.of("/api/recall")] == ["researcher"]
        assert text.splitlines()[3:-1] == ["1. User likes &lt;tea&gt; while working"]
        assert steps[1:] == ["units", "relevant", "block"]


@pytest.mark.requirement("memwal-recall-min-relevance")
@pytest.mark.requirement("memwal-recall-call")
async def test_the_server_is_asked_once_and_its_memories_are_ranked_by_distance() -> None:
    async with hook(minRelevance=0, maxRecallResults=2) as (server, hooked):
        server.add("User likes green boats", "researcher")
        server.add("User likes boats that are green and large", "researcher")
        server.add("User sleeps", "researcher")
        change = await handled(hooked, "likes large boats")
        assert server.of("/api/recall") == [
            {"query": "likes large boats", "limit": 2, "namespace": "researcher"}
        ]
        assert (change.prepend_context or "").splitlines()[3:-1] == [
            "1. User likes boats that are green and large",
            "2. User likes green boats",
        ]


@pytest.mark.requirement("memwal-recall-setting-auto")
async def test_without_auto_recall_the_server_is_not_asked() -> None:
    async with hook(autoRecall=False) as (server, hooked):
        server.add("User likes large boats", "researcher")
        assert (await handled(hooked, "likes large boats")).prepend_context is None
        assert server.requests == []
    async with hook() as (server, hooked):
        server.add("User likes large boats", "researcher")
        assert "large boats" in ((await handled(hooked, "likes large boats")).prepend_context or "")
