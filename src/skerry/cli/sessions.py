"""`skerry sessions`: what can be done with the conversations of a gateway that is stopped."""

import os
from argparse import Namespace

import anyio

from skerry.app.build import open_state
from skerry.cli.render import show, show_json
from skerry.config.load import load


def run(arguments: Namespace) -> int:
    """Run `skerry sessions mirror`; return the exit code."""
    return anyio.run(_mirror, arguments)


async def _mirror(arguments: Namespace) -> int:
    config = load(os.environ).config
    async with open_state(config) as (store, mirror):
        count = await mirror.rebuild(store)
    if arguments.json:
        show_json({"transcripts": count, "folder": str(mirror.agents_dir)})
    else:
        show(f"{count} transcripts written anew below {mirror.agents_dir}")
    return 0
