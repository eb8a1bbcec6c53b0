"""The parser of `skerry sandbox`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output

BACKENDS = ("auto", "docker", "podman", "bubblewrap")
"""Choices of `agents.defaults.sandbox.backend`, so that help loads no configuration."""
_RUN = "skerry.features.sandbox.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry sandbox`."""
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    listing = command(add, "list", _RUN, "list the containers that are kept for scopes")
    explain = command(
        add, "explain", _RUN, "show where commands of a session run, and their limits"
    )
    recreate = command(
        add, "recreate", _RUN, "remove containers; the next command creates them again"
    )
    test = command(add, "test", _RUN, "look for canaries from inside, and print each check")
    for parser in (explain, recreate, test):
        parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
    for parser in (explain, recreate):
        parser.add_argument("--session", metavar="KEY", help="session (default: main)")
    recreate.add_argument(
        "--all", action="store_true", help="remove the containers of all agents and sessions"
    )
    test.add_argument("--backend", choices=BACKENDS, help="backend (default: the configured one)")
    for parser in (listing, explain, recreate, test):
        output(parser)
