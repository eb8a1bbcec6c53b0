"""`kill -9` between the steps of a reset: the old conversation or the new one, whole."""

import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.model.errors import GatewayUnreachableError
from skerry.store import open_store
from skerry.testing.gateway import running_gateway
from tests.support.chaos import Gateway, mirror_faults, until
from tests.support.moments import Moments, echoing, life


async def ask(gateway: Gateway, method: str, **params: Any) -> Any:
    async with GatewayClient(gateway.address) as client:
        final = method == "agent"
        return await client.request(method, params, expect_final=final)


async def texts(gateway: Gateway, **params: Any) -> list[str]:
    payload = await ask(gateway, "chat.history", sessionKey="main", **params)
    return [message["content"][0]["text"] for message in payload["messages"]]


@pytest.mark.parametrize(
    ("fault", "committed"),
    [
        pytest.param("dispatch.before-change", False, id="before it is committed"),
        pytest.param("dispatch.after-change", True, id="when it is committed"),
        pytest.param("mirror.before-rename:1", True, id="before the file is renamed"),
        pytest.param("mirror.after-rename:1", True, id="when the file is renamed"),
    ],
)
async def test_a_kill_during_a_reset_leaves_one_whole_conversation(
    tmp_path: Path, fault: str, *, committed: bool
) -> None:
    async with running_gateway(home=tmp_path, first=("--fault", fault)) as gateway:
        await ask(gateway, "agent", sessionKey="main", message="hi", idempotencyKey="k1")
        await until(lambda: list(tmp_path.glob("agents/main/sessions/*.jsonl")))
        with suppress(GatewayUnreachableError):
            await ask(gateway, "sessions.reset", key="main")
        with anyio.fail_after(60):
            assert await gateway.wait() == -signal.SIGKILL
        await gateway.start()
        archived = (await ask(gateway, "sessions.list", archived=True))["sessions"]
        if committed:
            assert await texts(gateway) == []
            (old,) = archived
            await ask(gateway, "sessions.restore", sessionId=old["sessionId"])
        else:
            assert archived == []
        assert await texts(gateway) == ["hi", "echo: hi"]
        again = await ask(gateway, "agent", sessionKey="main", message="hi", idempotencyKey="k1")
        assert again["result"]["payloads"][0]["text"] == "echo: hi"
        assert await texts(gateway) == ["hi", "echo: hi"]
        assert await gateway.stop() == 0
    async with open_store(tmp_path / "state.sqlite") as store:
        assert await mirror_faults(tmp_path, store) == []


FAULTS = ("dispatch.accepted:3", "store.before-commit:5", "store.after-commit:5")
SAYS = (("k1", "one"), ("k2", "/new two"))


@pytest.fixture(scope="module", params=["/new hi", "/new", "/resume"])
def moments(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Moments:
    """A life in which a third message begins a session, as it was at each fault point."""
    folder = tmp_path_factory.mktemp("life")
    moments = Moments(folder / "now", folder / "moments", frozenset(FAULTS))
    moments.about = request.param

    async def lived() -> None:
        async with life(moments.folder, moments.reach, echoing()) as first:
            moments.turn = first.gateway.context.store._writer.turn
            for key, text in (*SAYS, ("k3", moments.about)):
                await ask(first, "agent", sessionKey="main", message=text, idempotencyKey=key)
            await until(lambda: moments.reached == moments.wanted, lambda: moments.reached)

    anyio.run(lived)
    return moments


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_kill_while_a_message_begins_a_session_leaves_it_once_in_one(
    tmp_path: Path, moments: Moments, fault: str
) -> None:
    message = moments.about
    folder = shutil.copytree(moments[fault], tmp_path / "copy")
    async with life(folder, models=echoing()) as second:
        for key, text in (*SAYS, ("k3", message)):
            await ask(second, "agent", sessionKey="main", message=text, idempotencyKey=key)
        archived = (await ask(second, "sessions.list", archived=True))["sessions"]
        ids = [None, *(row["sessionId"] for row in archived)]
        said = [await texts(second, **({"sessionId": id_} if id_ else {})) for id_ in ids]
        everything = [text for texts_ in said for text in texts_]
        for text in ("one", "echo: one", "two", "echo: two"):
            assert everything.count(text) == 1
        if message == "/new hi":
            assert said[0][-2:] == ["hi", "echo: hi"]
            assert everything.count("hi") == 1
            assert len(archived) == 2
        elif message == "/new":
            assert said[0][0] == "/new"
            assert everything.count("/new") == 1
            assert len(archived) == 2
        else:
            assert said[0][:2] == ["one", "echo: one"]
            assert everything.count("/resume") == 1
            assert len(archived) == 1
    async with open_store(folder / "home" / "state.sqlite") as store:
        assert await mirror_faults(folder / "home", store) == []
