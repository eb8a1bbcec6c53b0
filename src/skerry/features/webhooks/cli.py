"""The parser of `skerry webhooks`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach

_RUN = "skerry.features.webhooks.cli_run"


def add(webhooks: ArgumentParser) -> None:
    """Adds the commands of `skerry webhooks`."""
    add = webhooks.add_subparsers(metavar="COMMAND", title="commands").add_parser
    listing = command(add, "list", _RUN, "list the webhooks, with their addresses and limits")
    trial = command(add, "test", _RUN, "print the run that a post would start, without starting it")
    trial.add_argument("name", metavar="NAME", help="name of a mapping")
    trial.add_argument(
        "--file", metavar="FILE", help="file with the body; - reads standard input ({})"
    )
    trial.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME: VALUE",
        help="header of the post; repeatable",
    )
    for name, parser in {"list": listing, "test": trial}.items():
        parser.set_defaults(action=name)
        output(reach(parser))
