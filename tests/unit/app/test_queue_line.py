"""The line of a session: running and waiting messages, and those in no transcript yet."""

from pathlib import Path

import anyio

from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import BeforeMessageWrite
from skerry.hooks.runner import Handler
from skerry.model.ids import RunId
from skerry.ports.dispatch import QueuedRun
from skerry.testing.model import ReplyGate, ScriptedModel
from tests.support.core import MAIN, open_core
from tests.unit.runtime.test_queue import begun, by_client, ended


async def test_the_line_of_a_session_says_what_waits_and_leaves_out_what_has_entered(
    tmp_path: Path,
) -> None:
    gate, second = ReplyGate(), ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "one"], [second, "both"]])) as core:
        await begun(core, gate, by_client("b"), by_client("c"))
        b, c = ((RunId(name), name) for name in "bc")
        waiting = [QueuedRun(one[0], (one,), waits=True) for one in (b, c)]
        assert core.dispatch.line(MAIN) == [QueuedRun(RunId("a")), *waiting]
        gate.open()
        with anyio.fail_after(60):
            await second.reached.wait()
        assert core.dispatch.line(MAIN) == [QueuedRun(RunId("c"))]
        second.open()
        await ended(core, "b")


async def test_the_line_says_what_a_run_answers_until_the_transcript_has_it(tmp_path: Path) -> None:
    gate, hooks = ReplyGate(), Hooks()
    seen: list[list[QueuedRun]] = []

    def look(_: BeforeMessageWrite) -> None:
        seen.append(core.dispatch.line(MAIN))

    hooks.before_message_write.add(Handler("test", look))
    model = ScriptedModel([[gate, "one"], ["both"]])
    async with open_core(tmp_path, model, hooks=hooks) as core:
        await begun(core, gate, by_client("b"), by_client("c"))
        gate.open()
        await ended(core, "b")
    a, b, c = ((RunId(name), name) for name in "abc")
    waiting = [QueuedRun(one[0], (one,), waits=True) for one in (b, c)]
    assert seen == [
        [QueuedRun(a[0], (a,))],
        [QueuedRun(a[0]), *waiting],
        [QueuedRun(c[0], (b, c))],
        [QueuedRun(c[0])],
    ]
