"""Skills of plugins in whole gateways: listed in the prompt, read by the model, named in groups."""

import shutil
from pathlib import Path
from typing import Any

import anyio
import pytest

from scripts.requirements import ROOT
from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from skerry.testing.channel import FakePlatform
from skerry.testing.model import ScriptedModel, echo
from tests.support.whole import whole_gateway

TOKEN = "t" * 32
SKILL = Path("skills") / "count-frogs"


def plugin(home: Path, names: tuple[str, ...] = ("count-frogs",)) -> Path:
    """Writes a plugin that is a manifest and skills alone."""
    folder = home / "marsh"
    for name in names:
        shutil.copytree(ROOT / "docs/examples/plugins/pond" / SKILL, folder / "skills" / name)
        file = folder / "skills" / name / "SKILL.md"
        file.write_text(file.read_text().replace("name: count-frogs", f"name: {name}"))
    (folder / "__init__.py").touch()
    (folder / "openclaw.plugin.json").write_text('{"id": "marsh", "skills": ["skills"]}')
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


def config(folder: Path, **more: Any) -> dict[str, Any]:
    return {
        "gateway": {"auth": {"token": TOKEN}},
        "plugins": {"load": {"paths": [str(folder)]}},
        **more,
    }


async def of_plugins(client: GatewayClient) -> list[dict[str, Any]]:
    """Returns the skills of plugins."""
    status = await client.request("skills.status")
    return [skill for skill in status["skills"] if skill["tier"] == "plugin"]


@pytest.mark.requirement("skills-tier-plugin")
@pytest.mark.requirement("agent-command-skills-snapshot")
async def test_the_model_is_shown_the_skills_of_a_plugin_and_reads_one(tmp_path: Path) -> None:
    folder, model = plugin(tmp_path), ScriptedModel(echo)
    where = (folder / SKILL).resolve()
    async with (
        whole_gateway(tmp_path / "home", Hooks(), config=config(folder), model=model) as (_, at),
        GatewayClient(at) as client,
    ):

        async def ask(text: str) -> str:
            params = {"message": text, "sessionKey": "main", "idempotencyKey": text}
            final = await client.request("agent", params, expect_final=True, timeout=60)
            reply: str = final["result"]["payloads"][-1]["text"]
            return reply

        assert "Count a frog for each place" in await ask(
            f'call read {{"path": "{where}/SKILL.md"}}'
        )
        assert "the lily" in await ask(f'call read {{"path": "{where}/places.md"}}')
        system = model.requests[0].request.system
        assert f"<location>{where}/SKILL.md</location>" in system
        assert system.index("## Tools") < system.index("<available_skills>") < system.index("## D")
        assert "Count a frog" not in system, "the text of a skill costs nothing until it is read"
        (skill,) = await of_plugins(client)
        assert (skill["name"], skill["eligible"], skill["emoji"]) == ("count-frogs", True, "🐸")
        assert skill["requirements"]["bins"] == ["sh"]
        assert skill["missing"] == {"bins": [], "anyBins": [], "env": [], "config": [], "os": []}
        (report,) = (await client.request("plugins.list"))["plugins"]
        assert report["skills"] == ["count-frogs"]


async def test_a_group_is_offered_the_skills_that_its_settings_name(tmp_path: Path) -> None:
    folder, model = plugin(tmp_path, ("heron", "newt")), ScriptedModel(echo)
    groups = {
        "boats": {"requireMention": False, "skills": ["newt", "none"]},
        "quiet": {"requireMention": False, "skills": []},
        "*": {"requireMention": False},
    }
    channel = {"dmPolicy": "open", "allowFrom": ["*"], "groupPolicy": "open", "groups": groups}
    configuration = config(
        folder,
        channels={"memory": channel},
        tools={"guests": {"allow": ["read"]}},
    )
    platform = FakePlatform(tmp_path / "platform")
    async with whole_gateway(tmp_path / "home", Hooks(), platform, configuration, model=model):
        for count, peer in enumerate(("boats", "quiet", "garden"), 1):
            platform.say("hello", peer=peer, kind="group", message_id=f"m{count}", sender="ada")
            with anyio.fail_after(60):
                while len(platform.received()) < count:  # noqa: ASYNC110 - the platform is a folder
                    await anyio.sleep(0.02)
    offered = [
        [name for name in ("heron", "newt") if f"<name>{name}</name>" in request.request.system]
        for request in model.requests
    ]
    assert offered == [["newt"], [], ["heron", "newt"]]


async def test_who_may_not_read_files_is_shown_no_skills(tmp_path: Path) -> None:
    folder, model = plugin(tmp_path), ScriptedModel(echo)
    channel = {"dmPolicy": "open", "allowFrom": ["*"]}
    platform = FakePlatform(tmp_path / "platform")
    configuration = config(folder, channels={"memory": channel})
    async with whole_gateway(tmp_path / "home", Hooks(), platform, configuration, model=model):
        platform.say("hello", peer="stranger", message_id="m1")
        with anyio.fail_after(60):
            while not platform.received():  # noqa: ASYNC110 - the platform is a folder
                await anyio.sleep(0.02)
    assert "available_skills" not in model.requests[0].request.system


async def test_a_plugin_that_is_removed_takes_its_skills_along(tmp_path: Path) -> None:
    folder, model = plugin(tmp_path), ScriptedModel(echo)
    home = tmp_path / "home"
    configuration = config(folder)
    configuration["gateway"]["reload"] = {"debounceMs": 0}
    async with (
        whole_gateway(home, Hooks(), config=configuration, model=model) as (application, at),
        GatewayClient(at) as client,
    ):
        assert len(await of_plugins(client)) == 1
        text = (home / "skerry.json").read_text()
        (home / "skerry.json").write_text(text.replace(f'["{folder}"]', "[]"))
        with anyio.fail_after(60):
            while await of_plugins(client):  # noqa: ASYNC110 - the gateway looks at the file each second
                await anyio.sleep(0.05)
        assert application.context.plugins is not None
        assert dict(application.context.plugins.skills.plugins) == {}
