"""`/status`: the last run of the conversation, and the use of the limits."""

from pathlib import Path

from skerry.app.command_dependencies import CommandDependencies
from skerry.app.commands import state_lines
from skerry.commands.table import CommandCall
from skerry.model.errors import ModelsFailedError
from skerry.testing.model import ScriptedModel
from tests.support.core import MAIN, open_core


async def test_status_lists_who_failed_in_the_last_run_and_what_is_used_of_the_limits(
    tmp_path: Path,
) -> None:
    attempts = ["p/a: down", "p/b: no credit left"]
    script = ScriptedModel([[ModelsFailedError(attempts)]])
    async with open_core(tmp_path, script) as core:
        result = await core.ask("hi")
        assert result.error is not None
        assert result.error.message.count(".") == 1
        call = CommandCall("status", "", MAIN, "webchat", is_owner=True)
        desk = CommandDependencies(core.dispatch.runtime.config, core.dispatch)
        failed, limits = await state_lines(core.store, desk, call)
    assert all(f"- {attempt}" in failed for attempt in attempts)
    assert "model calls" in limits
    assert "a run at most" in limits
