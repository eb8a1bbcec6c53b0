"""Agents made, changed and deleted over the wire, and the files of their workspaces."""

import hashlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skerry.hooks.hooks import Hooks
from tests.support.whole import whole_gateway
from tests.support.wire import OPERATOR, Wire, connected

CONFIG: dict[str, Any] = {"gateway": {"auth": {"token": "5eed" * 12}}}


@asynccontextmanager
async def whole(home: Path, scopes: Sequence[str] = OPERATOR) -> AsyncIterator[Wire]:
    async with (
        whole_gateway(home, Hooks(), config=CONFIG) as (_, address),
        connected(address.url, auth={"token": address.token}, scopes=list(scopes)) as wire,
    ):
        yield wire


def written(home: Path) -> dict[str, Any]:
    tree: dict[str, Any] = json.loads((home / "skerry.json").read_text())
    return tree


async def ids(wire: Wire) -> list[str]:
    return [agent["id"] for agent in (await wire.call("agents.list"))["agents"]]


@pytest.mark.requirement("config-agent-name")
async def test_an_agent_is_listed_by_its_name_where_it_has_one(tmp_path: Path) -> None:
    config = {**CONFIG, "agents": {"list": [{"id": "main"}, {"id": "work", "name": "Ada"}]}}
    async with (
        whole_gateway(tmp_path / "home", Hooks(), config=config) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        listed = (await wire.call("agents.list"))["agents"]
        assert [(agent["id"], agent.get("name")) for agent in listed] == [
            ("main", None),
            ("work", "Ada"),
        ]


async def test_an_agent_is_made_with_a_workspace_and_answers_at_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with whole(home) as wire:
        made = await wire.call("agents.create", {"name": "Ada Lovelace", "emoji": "🧮"})
        assert made["agentId"] == "ada-lovelace"
        assert made["workspace"] == str(home / "workspace-ada-lovelace")
        assert await ids(wire) == ["main", "ada-lovelace"]
        assert (await wire.call("agents.list"))["defaultId"] == "main"
        shown = await wire.call("agent.identity.get", {"agentId": "ada-lovelace"})
        assert (shown["name"], shown["emoji"]) == ("Ada Lovelace", "🧮")
        params = {"sessionKey": "agent:ada-lovelace:main", "message": "hi", "idempotencyKey": "1"}
        await wire.call("chat.send", params)
        final = await wire.event("chat", state="final", runId="1")
        assert final["payload"]["message"]["content"][0]["text"] == "echo: hi"
        assert (home / "workspace-ada-lovelace" / "SOUL.md").exists()
        again = (await wire.ask("agents.create", {"name": "Ada Lovelace"}))["error"]
        assert "already exists" in again["message"]
        reserved = (await wire.ask("agents.create", {"name": "main"}))["error"]
        assert "reserved" in reserved["message"]


async def test_an_agent_s_directory_is_not_chosen_over_the_wire(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with whole(home) as wire:
        params = {"name": "Eve", "workspace": "/etc"}
        error = (await wire.ask("agents.create", params))["error"]
        assert "cannot be set over the gateway" in error["message"]
        assert "agents.list[].workspace" in error["details"]["remedy"]
        await wire.call("agents.create", params | {"workspace": str(home / "workspace-eve")})
        moved = await wire.ask("agents.update", {"agentId": "eve", "workspace": "/etc"})
        assert "cannot be set over the gateway" in moved["error"]["message"]
    assert all("workspace" not in one for one in written(home)["agents"]["list"])


async def test_an_agent_s_name_model_and_looks_are_changed_and_the_rest_stays(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    async with whole(home) as wire:
        await wire.call("agents.create", {"name": "Bo", "model": "test/script"})
        changed = {"agentId": "bo", "name": "Bob", "emoji": "🐙"}
        assert await wire.call("agents.update", changed) == {"ok": True, "agentId": "bo"}
        (_, row) = written(home)["agents"]["list"]
        assert row == {
            "id": "bo",
            "name": "Bob",
            "model": {"primary": "test/script"},
            "identity": {"emoji": "🐙"},
        }
        await wire.call("agents.update", {"agentId": "bo", "model": None})
        assert "model" not in written(home)["agents"]["list"][1]
        unknown = await wire.ask("agents.update", {"agentId": "nobody"})
        assert unknown["error"]["details"]["code"] == "UNKNOWN_AGENT_ID"


async def test_a_deleted_agent_s_files_go_to_the_trash_and_its_bindings_with_it(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    async with whole(home) as wire:
        await wire.call("agents.create", {"name": "Bo"})
        (home / "workspace-bo" / "note.txt").write_text("kept")
        gone = await wire.call("agents.delete", {"agentId": "bo"})
        assert gone["removed"] == [{"path": str(home / "workspace-bo"), "method": "trash"}]
        assert await ids(wire) == ["main"]
        assert not (home / "workspace-bo").exists()
        (kept,) = (home / "trash").glob("workspace-bo-*/note.txt")
        assert kept.read_text() == "kept"
        await wire.call("agents.create", {"name": "Cy"})
        left = await wire.call("agents.delete", {"agentId": "cy", "deleteFiles": False})
        assert "removed" not in left
        assert (home / "workspace-cy").is_dir()
        error = (await wire.ask("agents.delete", {"agentId": "main"}))["error"]
        assert "default agent" in error["message"]


async def test_the_files_of_a_workspace_are_listed_read_and_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with whole(home) as wire:
        listed = await wire.call("agents.files.list", {"agentId": "main"})
        rows = {file["name"]: file for file in listed["files"]}
        assert rows["SOUL.md"]["size"] > 0
        assert rows["MEMORY.md"]["missing"]
        assert "note.txt" not in rows
        params = {"agentId": "main", "name": "SOUL.md"}
        read = (await wire.call("agents.files.get", params))["file"]
        assert read["hash"] == hashlib.sha256(read["content"].encode()).hexdigest()
        new = params | {"content": "You are calm.\n", "expectedHash": read["hash"]}
        saved = await wire.call("agents.files.set", new)
        assert (saved["file"]["content"], saved["file"]["missing"]) == ("You are calm.\n", False)
        assert (home / "workspace" / "SOUL.md").read_text() == "You are calm.\n"
        late = (await wire.ask("agents.files.set", new))["error"]
        assert late["details"]["code"] == "file.changed"
        missing = (await wire.call("agents.files.get", params | {"name": "MEMORY.md"}))["file"]
        assert missing["missing"]


async def test_no_other_file_is_read_or_written_than_those_of_the_prompt(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with whole(home) as wire:
        for name in ("note.txt", "../skerry.json", "memory/2026-11-22.md", "/etc/passwd"):
            for method, more in (("get", {}), ("set", {"content": "x"})):
                params = {"agentId": "main", "name": name} | more
                error = (await wire.ask(f"agents.files.{method}", params))["error"]
                assert "unsupported file" in error["message"]
        secret = tmp_path / "secret"
        secret.write_text("not yours")
        (home / "workspace" / "SOUL.md").unlink()
        (home / "workspace" / "SOUL.md").symlink_to(secret)
        params = {"agentId": "main", "name": "SOUL.md"}
        assert "not yours" not in json.dumps(await wire.ask("agents.files.get", params))
        assert "error" in await wire.ask("agents.files.set", params | {"content": "mine"})
    assert secret.read_text() == "not yours"


async def test_only_an_admin_changes_agents_and_their_files(tmp_path: Path) -> None:
    async with whole(tmp_path / "home", ("operator.write",)) as wire:
        assert (await wire.call("agents.files.list", {"agentId": "main"}))["files"]
        for method in ("create", "update", "delete", "files.set"):
            error = (await wire.ask(f"agents.{method}", {}))["error"]
            assert error["details"]["missingScope"] == "operator.admin"
