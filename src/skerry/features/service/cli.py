"""The parser of `skerry service`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output

_RUN = "skerry.features.service.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry service`."""
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    install = command(add, "install", _RUN, "write the unit, enable and start it")
    install.add_argument("--no-start", action="store_true", help="enable the unit without a start")
    uninstall = command(
        add, "uninstall", _RUN, "stop the service and remove the unit, nothing else"
    )
    status = output(command(add, "status", _RUN, "show the state of the service"))
    printed = command(add, "show", _RUN, "print the unit without changes")
    names = {"install": install, "uninstall": uninstall, "status": status, "show": printed}
    for parser in (install, uninstall):
        output(parser)
    for name, parser in names.items():
        parser.set_defaults(action=name)
