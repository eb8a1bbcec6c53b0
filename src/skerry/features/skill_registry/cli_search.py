"""`skerry skills search`: searches the registry."""

from argparse import Namespace

import anyio

from skerry.cli.render import one_line, show, show_json, table
from skerry.config.root import Config
from skerry.features.skill_registry.cli_parts import read_config, registry, registry_url
from skerry.features.skill_registry.registry_client import SearchResult, ranked


def run(arguments: Namespace) -> int:
    """Runs the command; returns the exit code."""
    config = read_config()
    results = anyio.run(_search, config, arguments.query, arguments.limit)
    if arguments.json:
        show_json({"registry": registry_url(config), "results": ranked(results)})
    elif not results:
        show(f"{registry_url(config)} has no skill for {one_line(arguments.query)!r}.")
    else:
        rows = [
            tuple(map(one_line, (result.slug or "", result.version or "", result.summary or "")))
            for result in results
        ]
        show(table([("SLUG", "VERSION", "SUMMARY"), *rows]))
        show("Install: skerry skills install SLUG")
    return 0


async def _search(config: Config, query: str, limit: int) -> tuple[SearchResult, ...]:
    async with registry(config) as client:
        return await client.search(query, limit)
