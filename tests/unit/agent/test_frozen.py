"""The system prompt of a session stays as it began, so that a provider's cache holds."""

from pathlib import Path

from skerry.model.ids import SessionKey
from skerry.testing.model import ScriptedModel, echo
from tests.support.core import Core, open_core

NOTE = 'call write {"path": "MEMORY.md", "content": "I like tea."}'


async def begun(core: Core) -> None:
    (core.workspace / "MEMORY.md").write_text("I like milk.", encoding="utf-8")
    await core.ask("hello")


async def test_a_note_in_the_middle_leaves_every_byte_of_the_request_before_it(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        await begun(core)
        await core.ask(NOTE)
        await core.ask("and now?")
        assert (core.workspace / "MEMORY.md").read_text(encoding="utf-8") == "I like tea."
    assert "I like milk." in model.seen[0].request.system
    for before, after in zip(model.seen, model.seen[1:], strict=False):
        assert before.request.system == after.request.system
        assert before.request.tools == after.request.tools
        assert before.messages == after.messages[: len(before.messages)]


async def test_a_new_session_has_what_was_noted(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        await begun(core)
        await core.ask(NOTE)
        await core.ask("elsewhere", key=SessionKey.parse("agent:main:other"))
    assert "I like tea." in model.seen[-1].request.system


async def test_a_compaction_takes_up_what_was_noted(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        await begun(core)
        await core.ask(NOTE)
        for number in range(20):
            await core.ask(f"{number} {'word ' * 500}")
        assert "I like milk." in model.seen[-1].request.system
        assert await core.dispatch.compact(SessionKey.main(), "") is not None
        await core.ask("and now?")
    assert "I like tea." in model.seen[-1].request.system


async def test_what_is_removed_or_forgotten_is_shown_no_more(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        await begun(core)
        (core.workspace / "MEMORY.md").unlink()
        await core.ask("gone?")
        assert "milk" not in model.seen[-1].request.system
        (core.workspace / "MEMORY.md").write_text("I like nothing.", encoding="utf-8")
        core.dispatch.runtime.prompts.forget()
        await core.ask("forgotten?")
        assert "I like nothing." in model.seen[-1].request.system
