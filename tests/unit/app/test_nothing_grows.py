"""The objects of a process do not grow with the number of answered messages."""

import gc
from collections import Counter
from pathlib import Path

from skerry.model.ids import SessionKey
from skerry.testing.model import ScriptedModel, echo
from tests.support.core import Core, open_core, request

PEOPLE = 5
MESSAGES = 8


async def spoken(core: Core, model: ScriptedModel, turn: int) -> Counter[str]:
    """Lets people speak in conversations of their own; returns what objects of ours are left."""
    for number in range(MESSAGES):
        for person in range(PEOPLE):
            key = SessionKey.parse(f"turn{turn}-{person}")
            payload = request(f"message {number}", f"{turn} {person} {number}", key)
            await core.dispatch.submit(payload)
            await core.dispatch.wait(payload.run_id, 60)
    core.dispatch.runtime.histories.clear()  # they are kept up to a limit of their own
    core.dispatch.runtime.prompts.forget()  # the same
    core.dispatch.runtime.tools.forget()  # the same
    for kept in (model.requests, core.events, core.woken):
        kept.clear()
    gc.collect()
    # Some classes of others keep something else than a text as their module.
    names = (
        f"{type(object_).__module__}.{type(object_).__qualname__}" for object_ in gc.get_objects()
    )
    return Counter(
        name for name in names if name.startswith(("skerry.", "asyncio", "anyio", "sqlite3"))
    )


async def test_answered_messages_leave_no_object_behind(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        for turn in range(2):
            await spoken(core, model, turn)
        before = await spoken(core, model, 2)
        for turn in range(3, 5):
            await spoken(core, model, turn)
        after = await spoken(core, model, 5)
        grown = {name: (before[name], n) for name, n in after.items() if n > before[name] + 2}
        assert grown == {}
