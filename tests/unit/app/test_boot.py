"""BOOT.md: a run at each start, without a message, and only if the file has instructions."""

from pathlib import Path

import pytest

from skerry.app.boot import boot
from skerry.config.hooks import HooksConfig
from skerry.config.root import Config
from skerry.model.ids import RunId, SessionKey
from skerry.store import session_listing
from skerry.testing.model import ReplyGate, ScriptedModel
from tests.support.core import Core, open_core

BOOT = SessionKey.parse("agent:main:boot")


def config(core: Core) -> Config:
    return core.dispatch.runtime.config()


@pytest.mark.requirement("identity-file-boot-md")
async def test_it_is_done_in_a_conversation_of_its_own_once_a_start(tmp_path: Path) -> None:
    model = ScriptedModel([["NO_REPLY"], ["hello"], ["NO_REPLY"]])
    async with open_core(tmp_path, model) as core:
        (core.workspace / "BOOT.md").write_text("# Start\nLook at the lamp.", encoding="utf-8")
        (core.workspace / "MEMORY.md").write_text("private", encoding="utf-8")
        assert await boot(core.dispatch, config(core), 7) == [RunId("boot-main-7")]
        assert await boot(core.dispatch, config(core), 7) in ([], [RunId("boot-main-7")])
        result = await core.dispatch.wait(RunId("boot-main-7"), 60)
        await core.ask("hi")
        await boot(core.dispatch, config(core), 8)
        await core.dispatch.wait(RunId("boot-main-8"), 60)
        keys = [
            session.key
            for session in await core.store.read(lambda r: session_listing.recent(r, limit=9))
        ]
    assert result is not None
    assert result.session_key == str(BOOT)
    assert str(BOOT) in keys  # what it answers, a person finds there
    lasts = [request.last for request in model.requests]
    assert "Look at the lamp." in lasts[0]
    assert lasts[1] == "hi"
    assert "Look at the lamp." in lasts[2]
    systems = [request.request.system for request in model.requests]
    assert all("Look at the lamp." not in system for system in systems)
    assert ["private" in system for system in systems] == [False, True, False]


@pytest.mark.parametrize("text", [None, "", "# Start\n\n<!-- nothing yet -->\n"])
async def test_without_something_to_do_no_model_is_asked(tmp_path: Path, text: str | None) -> None:
    model = ScriptedModel()
    async with open_core(tmp_path, model) as core:
        if text is not None:
            (core.workspace / "BOOT.md").write_text(text, encoding="utf-8")
        assert await boot(core.dispatch, config(core), 7) == []
    assert model.requests == []


async def test_it_can_be_switched_off(tmp_path: Path) -> None:
    hooks = {"internal": {"entries": {"boot-md": {"enabled": False}}}}
    async with open_core(tmp_path, ScriptedModel()) as core:
        (core.workspace / "BOOT.md").write_text("Look at the lamp.", encoding="utf-8")
        off = config(core).model_copy(update={"hooks": HooksConfig.model_validate(hooks)})
        assert await boot(core.dispatch, off, 7) == []


async def test_what_an_earlier_start_left_open_goes_on_alone(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "done"]])) as core:
        (core.workspace / "BOOT.md").write_text("Look at the lamp.", encoding="utf-8")
        await boot(core.dispatch, config(core), 7)
        await gate.reached.wait()
        assert await boot(core.dispatch, config(core), 8) == []
        gate.open()
        await core.dispatch.wait(RunId("boot-main-7"), 60)


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel()) as core:
        (core.workspace / "BOOT.md").symlink_to("/etc/hostname")
        assert await boot(core.dispatch, config(core), 7) == []
