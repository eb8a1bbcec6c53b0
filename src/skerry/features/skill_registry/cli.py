"""The parsers of `skerry skills search|install|update|remove|publish|setup`."""

from argparse import ArgumentParser

from skerry.cli.options import Add, command, output, subcommands, whole

_SEARCH = "skerry.features.skill_registry.cli_search"
_INSTALL = "skerry.features.skill_registry.cli_install"
_PUBLISH = "skerry.features.skill_registry.cli_publish"
_SETUP = "skerry.features.skill_registry.cli_setup"


def add(group: ArgumentParser) -> None:
    """Adds commands to `skerry skills`."""
    add = subcommands(group)
    search = command(add, "search", _SEARCH, "search the registry for skills")
    search.add_argument("query", metavar="WORDS", help="what the skill is for")
    search.add_argument(
        "--limit", type=whole(1, 50), default=10, metavar="N", help="number of results (default 10)"
    )
    output(search)
    _add_install(add)
    publish = command(add, "publish", _PUBLISH, "publish a folder as a skill of the registry")
    publish.add_argument("folder", metavar="DIR", help="folder with a SKILL.md")
    publish.add_argument("--slug", metavar="SLUG", help="name in the registry (default: DIR's)")
    publish.add_argument("--name", metavar="NAME", help="name for people (default: the skill's)")
    publish.add_argument("--version", metavar="V", help="version (default: one after the newest)")
    publish.add_argument("--changelog", default="", metavar="TEXT", help="what has changed")
    _add_yes(publish, "accept the licence of the registry and do not ask")
    output(publish)
    setup = command(add, "setup", _SETUP, "install the programs that a skill needs")
    setup.add_argument("name", metavar="NAME", help="name of the skill")
    setup.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
    setup.add_argument("--option", metavar="ID", help="way to install them, if there are several")
    setup.add_argument("--list", action="store_true", help="print the ways, install nothing")
    _add_yes(setup, "do not ask for confirmation")
    output(setup)


def _add_install(add: Add) -> None:
    install = command(add, "install", _INSTALL, "install a skill of the registry for all agents")
    install.add_argument("slug", metavar="SLUG", help="name in the registry")
    install.add_argument("--version", metavar="V", help="version (default: the newest)")
    update = command(add, "update", _INSTALL, "update installed skills")
    which = update.add_mutually_exclusive_group(required=True)
    which.add_argument("slug", nargs="?", metavar="SLUG", help="name in the registry")
    which.add_argument("--all", action="store_true", help="update all installed skills")
    for parser in (install, update):
        parser.add_argument(
            "--force", action="store_true", help="also replace files that you have changed"
        )
        parser.add_argument(
            "--accept-findings",
            action="store_true",
            help="install in spite of severe findings, after you have read the files",
        )
        _add_yes(parser, "do not ask for confirmation")
        output(parser)
    remove = command(add, "remove", _INSTALL, "remove an installed skill")
    remove.add_argument("slug", metavar="SLUG", help="name in the registry")
    remove.add_argument(
        "--force", action="store_true", help="also remove files that you have changed"
    )
    output(remove)


def _add_yes(parser: ArgumentParser, text: str) -> None:
    parser.add_argument("--yes", action="store_true", help=text)
