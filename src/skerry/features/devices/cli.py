"""The parser of `skerry devices`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach

_RUN = "skerry.features.devices.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds what `skerry devices` has."""
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    for name, text in (
        ("list", "list pending requests and paired devices"),
        ("approve", "let a device in"),
        ("reject", "refuse a device"),
        ("remove", "forget a device and close its connections"),
        ("rotate", "make a new token for a device; print it"),
        ("revoke", "revoke a device until it is approved again"),
    ):
        parser = command(add, name, _RUN, text)
        parser.set_defaults(action=name)
        if name in {"approve", "reject"}:
            parser.add_argument("id", nargs="?", metavar="REQUEST", help="the beginning of its id")
            parser.add_argument("--latest", action="store_true", help="the newest request")
        elif name != "list":
            parser.add_argument("id", metavar="DEVICE", help="the beginning of its id")
        if name in {"rotate", "revoke"}:
            roles = ["operator", "node"]
            parser.add_argument("--role", choices=roles, default="operator", help="in which role")
        output(reach(parser))
