"""The parser of `skerry devices`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach

_RUN = "skerry.features.devices.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry devices`."""
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    for name, text in (
        ("list", "list pending requests and paired devices"),
        ("approve", "approve a device"),
        ("reject", "refuse a device"),
        ("remove", "remove a device and close its connections"),
        ("rotate", "create and print a new token of a device"),
        ("revoke", "revoke a device until it is approved again"),
    ):
        parser = command(add, name, _RUN, text)
        parser.set_defaults(action=name)
        if name in {"approve", "reject"}:
            parser.add_argument(
                "id", nargs="?", metavar="REQUEST", help="the beginning of the request id"
            )
            parser.add_argument("--latest", action="store_true", help="the newest request")
        elif name != "list":
            parser.add_argument("id", metavar="DEVICE", help="the beginning of the device id")
        if name in {"rotate", "revoke"}:
            roles = ["operator", "node"]
            parser.add_argument(
                "--role", choices=roles, default="operator", help="role (default: operator)"
            )
        output(reach(parser))
