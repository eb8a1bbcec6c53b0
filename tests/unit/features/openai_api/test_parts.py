"""Parts of the API: withdrawn text, removal of old conversations, and the check of the doctor."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.config.root import Config
from skerry.features.openai_api import checks, one_off_sessions
from skerry.features.openai_api.api_sessions import is_one_off
from skerry.features.openai_api.follower import AGAIN, RunFollower
from skerry.gateway.run_listeners import listening
from skerry.infra.clock import DAY_MS
from skerry.model.event import RunStarted, TextDelta, TextEnded, TextWithdrawn
from skerry.model.ids import RunId, SessionKey
from skerry.model.run import RunRequest
from skerry.ports.checks import Level
from skerry.sdk.features import Installation
from skerry.store import retention
from skerry.testing.clock import FakeClock
from tests.support.api_client import API_TOKEN, AUTH, TOKEN, ApiClient, chat_body, serving_api
from tests.support.gateway import Rig

RUN = RunId("openai-1")


@pytest.fixture
async def follower(rig: Rig) -> RunFollower:
    await rig.dispatcher.submit(RunRequest(RUN, SessionKey.main(), "hi"))
    rig.dispatcher.tell(RUN, RunStarted(1))
    return RunFollower(rig.context, RUN)


async def test_text_that_was_withdrawn_after_it_was_sent_begins_again(
    rig: Rig, follower: RunFollower
) -> None:
    tell = rig.dispatcher.tell
    with listening(rig.context.broadcast.listeners, RUN, follower.hear):
        for body in (TextDelta("one"), TextEnded()):
            tell(RUN, body)
        assert follower.new_text() == "one"
        tell(RUN, TextDelta("Hello there"))
        assert follower.new_text() == "\n\nHello there"
        tell(RUN, TextWithdrawn())
        assert follower.new_text() == ""
        tell(RUN, TextDelta("Hello world"))
        assert follower.new_text() == f"{AGAIN}\n\nHello world"
        follower.end(rig.dispatcher.end(RUN, payloads=("one", "Hello world")))
        assert (follower.new_text(), follower.answer) == ("", "one\n\nHello world")
    assert rig.context.broadcast.listeners == {}


async def test_text_that_was_withdrawn_before_it_was_sent_is_not_noticed(
    rig: Rig, follower: RunFollower
) -> None:
    tell = rig.dispatcher.tell
    with listening(rig.context.broadcast.listeners, RUN, follower.hear):
        for body in (TextDelta("wrong"), TextWithdrawn(), TextDelta("right")):
            tell(RUN, body)
        assert follower.new_text() == "right"


async def test_the_end_brings_text_that_no_event_had(rig: Rig, follower: RunFollower) -> None:
    with listening(rig.context.broadcast.listeners, RUN, follower.hear):
        rig.dispatcher.tell(RUN, TextDelta("a"))
        assert follower.new_text() == "a"
        assert not await follower.change(0.0) or await follower.change(0.0) is False
        follower.end(rig.dispatcher.end(RUN, payloads=("ab",)))
        with anyio.fail_after(60):
            assert await follower.change(60)
        assert follower.new_text() == "b"


async def kept(api: ApiClient) -> set[str]:
    rows = await api.application.context.store.read(retention.retained)
    return {row.key for row in rows}


async def test_conversations_of_one_request_are_removed_and_no_others(tmp_path: Path) -> None:
    clock = FakeClock()
    async with serving_api(tmp_path / "h", clock=clock) as api:
        context = api.application.context
        for headers, user in (
            (AUTH, None),
            (AUTH, "ada"),
            ({**AUTH, "x-skerry-session-key": "openai:notes"}, None),
        ):
            await api(chat_body("hi", user=user), headers)
        await api.until_idle()
        one_off = {key for key in await kept(api) if is_one_off(key)}
        assert len(one_off) == 1
        clock.advance(DAY_MS - 1_000)
        assert await one_off_sessions.remove_old(context) == 0
        later = await api(chat_body("hi"))
        await api.until_idle()
        clock.advance(2_000)
        assert await one_off_sessions.remove_old(context) == 1
        assert await kept(api) == {
            "agent:main:openai-user:ada",
            "agent:main:openai:notes",
            later.headers["x-skerry-session-key"],
        }


async def test_the_doctor_warns_of_tokens_that_can_be_read(tmp_path: Path) -> None:
    async def found(http: dict[str, Any], **gateway: Any) -> list[tuple[Level, str]]:
        section = {"auth": {"token": TOKEN}, "http": http, **gateway}
        config = Config.model_validate(
            {"gateway": section, "state_dir": tmp_path, "path": tmp_path / "skerry.json"}
        )
        results = await checks.exposure(Installation(tmp_path, {}, config))
        return [(check.level, check.message) for check in results]

    enabled = {"endpoints": {"chatCompletions": {"enabled": True}}}
    assert await found({}) == []
    assert [level for level, _ in await found(enabled)] == [Level.OK]
    assert [level for level, _ in await found(enabled, bind="lan")] == [Level.OK]
    exposed = await found({**enabled, "token": API_TOKEN}, bind="lan")
    assert [(level, "unencrypted" in text) for level, text in exposed] == [(Level.WARNING, True)]
    same = await found({**enabled, "token": TOKEN})
    assert [(level, "this machine only" in text) for level, text in same] == [(Level.WARNING, True)]
    short = await found({**enabled, "token": "short"})
    assert [(level, "can be guessed" in text) for level, text in short] == [(Level.WARNING, True)]
    none = await found(enabled, auth={"mode": "none"})
    assert [(level, "every program" in text) for level, text in none] == [(Level.WARNING, True)]
