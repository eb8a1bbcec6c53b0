"""An answer that reaches the most that its model may say: whole runs that say so."""

from pathlib import Path

import anyio
from msgspec.structs import replace

from skerry.model.ids import RunId
from skerry.model.run import StopReason
from skerry.ports.model import ModelReply, ModelRequest, ReplyListener
from skerry.runtime.finalize import CUT_OFF
from skerry.testing.model import ScriptedModel
from tests.support.core import open_core
from tests.support.hooks import from_alice, parts


async def test_a_person_on_a_platform_is_told_that_an_answer_was_cut_off(tmp_path: Path) -> None:
    class Short(ScriptedModel):
        async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
            return replace(await super().complete(request, listener), stop_reason="length")

    async with open_core(tmp_path, Short([["as far as"]])) as core:
        await core.dispatch.submit(from_alice("go on"))
        with anyio.fail_after(60):
            result = await core.dispatch.wait(RunId("go on"), None)
        assert result is not None
        assert (result.stop_reason, result.cut_off) == (StopReason.DONE, True)
        assert await parts(core) == ["as far as", CUT_OFF]
