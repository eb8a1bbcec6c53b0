"""Properties that a method does not heed: told, or refused with a reason."""

from pathlib import Path

from skerry.hooks.hooks import Hooks
from tests.support.whole import whole_gateway
from tests.support.wire import connected


async def test_a_page_that_names_the_session_it_shows_goes_on_talking(tmp_path: Path) -> None:
    async with (
        whole_gateway(tmp_path / "home", Hooks()) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        say = {"sessionKey": "agent:main:main", "deliver": False}
        await wire.call("chat.send", say | {"message": "one", "idempotencyKey": "1"})
        await wire.event("chat", state="final", runId="1")
        shown = (await wire.call("chat.history", {"sessionKey": "main"}))["sessionId"]
        told = await wire.call(
            "chat.send", say | {"message": "two", "idempotencyKey": "2", "sessionId": shown}
        )
        assert told == {"runId": "2", "status": "started"}
        await wire.event("chat", state="final", runId="2")
        await wire.call("sessions.reset", {"key": "main"})
        late = say | {"message": "three", "idempotencyKey": "3", "sessionId": shown}
        await wire.call("chat.send", late)
        await wire.event("chat", state="final", runId="3")
        history = await wire.call("chat.history", {"sessionKey": "main"})
        assert history["sessionId"] != shown
        assert history["messages"][0]["content"][0]["text"] == "three"


async def test_a_message_does_not_go_to_another_conversation_than_the_page_shows(
    tmp_path: Path,
) -> None:
    async with (
        whole_gateway(tmp_path / "home", Hooks()) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        await wire.call(
            "chat.send", {"sessionKey": "main", "message": "one", "idempotencyKey": "1"}
        )
        await wire.event("chat", state="final", runId="1")
        shown = (await wire.call("chat.history", {"sessionKey": "main"}))["sessionId"]
        answer = await wire.ask(
            "chat.send",
            {"sessionKey": "b", "message": "two", "idempotencyKey": "2", "sessionId": shown},
        )
        assert answer["error"]["details"]["code"] == "request.conversation_changed"
        assert "agent:main:main" in answer["error"]["message"]
        assert (await wire.call("sessions.list"))["count"] == 1
