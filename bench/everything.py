"""CPU of one turn with everything on: each hook, a plugin's command and tool, both protocols."""

import statistics
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from bench.fanout import drain
from bench.measure import driver, figure, gateway, model_server, settled
from skerry.hooks.hooks import Hooks
from skerry.hooks.points import SyncTransform
from skerry.testing.gateway import model_config

ROUNDS = 5
TURNS = 300
PLUGIN = """
from pydantic import BaseModel

from skerry.sdk.tools import FunctionTool


class Nothing(BaseModel):
    pass


async def look(event):
    return None


def glance(event):
    return None


async def answer(*_):
    return "nothing"


def register(api):
    api.register_tool(FunctionTool("nothing", "Do nothing.", Nothing, answer))
    api.register_command("nothing", answer, description="does nothing")
    for name in WAITING:
        api.on(name, look)
    for name in AT_ONCE:
        api.on(name, glance)
"""


def plugin() -> str:
    """Returns the text of a plugin with a handler at every hook point, which changes nothing."""
    points = Hooks().points
    at_once = [name for name, point in points.items() if isinstance(point, SyncTransform)]
    waiting = [name for name in points if name not in at_once]
    return f"{PLUGIN}\n\nWAITING = {waiting}\nAT_ONCE = {at_once}\n"


async def main() -> None:
    cost: list[float] = []
    with TemporaryDirectory(prefix="skerry-") as home, model_server() as model:
        file = Path(home) / "everything.py"
        file.write_text(plugin(), "utf-8")
        config = {**model_config(model.base_url), "plugins": {"load": {"paths": [str(file)]}}}
        with gateway(Path(home), config) as running:
            async with (
                driver(running) as client,
                driver(running, 3) as old,
                anyio.create_task_group() as tasks,
            ):
                tasks.start_soon(drain, old)
                await client.turns(50, ["warm"])
                await settled(running)
                for number in range(ROUNDS):
                    before = running.tree.cpu()
                    await client.turns(TURNS, [f"full-{number}"])
                    cost.append((running.tree.cpu() - before) / TURNS * 1e3)
                old.socket.transport.abort()
    figure(
        "CPU per turn with everything on, ms",
        "<= 5",
        f"{statistics.median(cost):.2f}",
        f"a plugin at {len(Hooks().points)} hooks, a client of each protocol;"
        f" rounds {min(cost):.2f} to {max(cost):.2f}",
    )


if __name__ == "__main__":
    anyio.run(main, backend_options={"use_uvloop": True})
