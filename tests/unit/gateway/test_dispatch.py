"""Properties without effect: reported in warnings, or refused with a reason."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from skerry.hooks.hooks import Hooks
from skerry.model.ids import RunId
from skerry.testing.model import ScriptedModels
from tests.support.gateway import Rig
from tests.support.whole import whole_gateway
from tests.support.wire import Wire, connected, request


@asynccontextmanager
async def whole(place: Path) -> AsyncIterator[Wire]:
    async with (
        whole_gateway(place / "home", Hooks()) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        yield wire


async def test_a_page_that_names_the_session_it_shows_goes_on_talking(tmp_path: Path) -> None:
    async with whole(tmp_path) as wire:
        say = {"sessionKey": "agent:main:main", "deliver": False}
        await wire.call("chat.send", say | {"message": "one", "idempotencyKey": "1"})
        await wire.event("chat", state="final", runId="1")
        shown = (await wire.call("chat.history", {"sessionKey": "main"}))["sessionId"]
        payload = await wire.call(
            "chat.send", say | {"message": "two", "idempotencyKey": "2", "sessionId": shown}
        )
        assert payload == {"runId": "2", "status": "started"}
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
    async with whole(tmp_path) as wire:
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


async def test_a_property_without_effect_is_told_in_the_answer(rig: Rig, wire: Wire) -> None:
    await wire.send(
        request("agent", {"message": "hi", "idempotencyKey": "k", "lane": "x", "to": "+1"}, id="r")
    )
    accepted = (await wire.response("r"))["payload"]
    rig.dispatcher.end(RunId("k"), payloads=("done",))
    final = (await wire.response("r"))["payload"]
    assert accepted["status"] == "accepted"
    assert final["result"]["payloads"][0]["text"] == "done"
    for payload in (accepted, final):
        assert [warning["path"] for warning in payload["warnings"]] == ["lane", "to"]
        assert all(warning["message"].endswith(".") for warning in payload["warnings"])


async def test_a_property_that_cannot_be_carried_out_is_refused_with_the_reason(
    rig: Rig, wire: Wire
) -> None:
    error = (await wire.ask("agent", {"message": "hi", "idempotencyKey": "k", "cwd": "/"}))["error"]
    assert error["message"] == "agent cannot take 'cwd': a run works in its agent's workspace."
    assert error["details"] == {
        "code": "request.unsupported_property",
        "property": "cwd",
        "remedy": "Send it without 'cwd'.",
    }
    assert rig.dispatcher.submitted == []


async def test_a_property_that_asks_for_nothing_passes(rig: Rig, wire: Wire) -> None:
    nothing: dict[str, object] = {
        "cwd": None,
        "modelRun": False,
        "internalEvents": [],
        "sessionEffects": "visible",
    }
    asked = {"message": "hi", "idempotencyKey": "k"} | nothing
    payload = (await wire.ask("agent", asked))["payload"]
    assert "warnings" not in payload
    assert len(rig.dispatcher.submitted) == 1


async def test_a_property_that_nobody_published_is_refused_beside_one_without_effect(
    wire: Wire,
) -> None:
    params = {"message": "hi", "idempotencyKey": "k", "lane": "x", "foo": 1}
    error = (await wire.ask("agent", params))["error"]
    assert error["message"] == "invalid agent params: at root: unexpected property 'foo'"


async def test_a_run_asks_the_model_that_it_names_and_only_admins_may_name_one(rig: Rig) -> None:
    params = {"message": "hi", "idempotencyKey": "k", "provider": "stub", "model": "stub-model"}
    async with connected(rig.url, scopes=["operator.write"]) as writer:
        error = (await writer.ask("agent", params))["error"]
        assert error["details"]["missingScope"] == "operator.admin"
    async with connected(rig.url) as admin:
        await admin.call("agent", params)
        assert rig.dispatcher.submitted[-1].model == "stub/stub-model"
        unknown = await admin.ask("agent", params | {"idempotencyKey": "l", "model": "absent"})
        assert "Unknown provider" in unknown["error"]["message"]
        alone = await admin.ask("agent", params | {"idempotencyKey": "m", "model": None})
        assert "without a model" in alone["error"]["message"]
    assert len(rig.dispatcher.submitted) == 1


async def test_a_message_that_is_no_command_is_said_to_the_model(tmp_path: Path) -> None:
    async with whole(tmp_path) as wire:
        params = {"sessionKey": "main", "message": "/status", "suppressCommandInterpretation": True}
        await wire.call("chat.send", params | {"idempotencyKey": "1"})
        final = await wire.event("chat", state="final", runId="1")
        assert final["payload"]["message"]["content"][0]["text"] == "echo: /status"


async def test_a_message_goes_only_where_the_page_has_seen_everything(tmp_path: Path) -> None:
    async with whole(tmp_path) as wire:
        say = {"sessionKey": "main", "message": "one"}
        await wire.call("chat.send", say | {"idempotencyKey": "1", "expectedLeafEntryId": None})
        await wire.event("chat", state="final", runId="1")
        late = await wire.ask(
            "chat.send", say | {"idempotencyKey": "2", "expectedLeafEntryId": None}
        )
        assert late["error"]["details"]["code"] == "request.conversation_changed"
        messages = (await wire.call("chat.history", {"sessionKey": "main"}))["messages"]
        leaf = messages[-1]["__openclaw"]["id"]
        await wire.call("chat.send", say | {"idempotencyKey": "3", "expectedLeafEntryId": leaf})


async def test_a_page_of_the_history_is_asked_for_by_a_message(tmp_path: Path) -> None:
    async with whole(tmp_path) as wire:
        for number in "12345":
            params = {"sessionKey": "main", "message": f"say {number}", "idempotencyKey": number}
            await wire.call("chat.send", params)
            await wire.event("chat", state="final", runId=number)
        every = (await wire.call("chat.history", {"sessionKey": "main"}))["messages"]
        expected = every[4]["__openclaw"]["id"]
        page = await wire.call(
            "chat.history", {"sessionKey": "main", "messageId": expected, "limit": 3}
        )
        assert expected in [message["__openclaw"]["id"] for message in page["messages"]]
        assert len(page["messages"]) == 3


async def test_a_list_has_the_conversations_that_its_filters_leave(tmp_path: Path) -> None:
    async with whole(tmp_path) as wire:
        await wire.call("sessions.patch", {"key": "silent"})
        await wire.call("sessions.patch", {"key": "cron:job", "pinned": True})
        await wire.call("chat.send", {"sessionKey": "main", "message": "hi", "idempotencyKey": "1"})
        await wire.event("chat", state="final", runId="1")

        async def keys(**filters: object) -> set[str]:
            rows = (await wire.call("sessions.list", filters))["sessions"]
            return {row["key"].removeprefix("agent:main:") for row in rows}

        assert await keys() == {"main", "silent", "cron:job"}
        assert await keys(requireLastInteraction=True) == {"main"}
        assert await keys(excludeCron=True) == {"main", "silent"}
        assert await keys(pinned=True) == {"cron:job"}
        assert await keys(activeOnly=True) == set()
        assert await keys(hasBoard=True) == set()
        assert await keys(workspaceDir="/nowhere") == set()
        payload = await wire.call("sessions.list", {"ownerId": "me"})
        assert [warning["path"] for warning in payload["warnings"]] == ["ownerId"]


async def test_what_a_person_marked_unread_stays_so_when_a_page_opens_it(tmp_path: Path) -> None:
    async with whole(tmp_path) as wire:
        await wire.call("sessions.patch", {"key": "main", "unread": True})
        opened = {"key": "main", "unread": False, "expectedMarkedUnreadAt": None}
        assert (await wire.call("sessions.patch", opened))["entry"]["unread"] is True
        payload = await wire.call("sessions.patch", {"key": "main", "unread": False})
        assert "unread" not in payload["entry"]


async def test_a_setting_that_is_not_kept_is_refused_instead_of_forgotten(tmp_path: Path) -> None:
    async with whole(tmp_path) as wire:
        error = (await wire.ask("sessions.patch", {"key": "main", "execHost": "node"}))["error"]
        assert "no agent of this gateway runs commands" in error["message"]
        await wire.call("sessions.patch", {"key": "main", "execHost": None, "elevatedLevel": "off"})


async def test_a_conversation_that_was_reset_meanwhile_is_not_reset_again(
    tmp_path: Path,
) -> None:
    async with whole(tmp_path) as wire:
        first = (await wire.call("sessions.patch", {"key": "main"}))["entry"]["sessionId"]
        again = {"key": "main", "expectedSessionId": first}
        await wire.call("sessions.reset", again)
        assert "changed since" in (await wire.ask("sessions.reset", again))["error"]["message"]


async def test_the_model_of_a_run_is_asked_in_that_run_alone(tmp_path: Path) -> None:
    async with (
        whole_gateway(tmp_path / "home", Hooks()) as (application, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        models = application.context.models
        assert isinstance(models, ScriptedModels)
        params = {"message": "hi", "idempotencyKey": "1", "model": "scripted/other"}
        await wire.send(request("agent", params, id="r"))
        await wire.response("r")
        assert (await wire.response("r"))["payload"]["status"] == "ok"
        first = list(models.chosen)
        await wire.send(request("agent", {"message": "hi", "idempotencyKey": "2"}, id="s"))
        await wire.response("s")
        assert (await wire.response("s"))["payload"]["status"] == "ok"
        after = models.chosen[len(first) :]
        assert models.info.ref in first
        assert models.info.ref not in after
