"""The parser of `skerry channels`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach

_RUN = "skerry.features.channels.cli_run"


def add(channels: ArgumentParser) -> None:
    """Adds the commands of `skerry channels`."""
    add = channels.add_subparsers(metavar="COMMAND", title="commands").add_parser
    listing = command(add, "list", _RUN, "list the configured accounts, and all platforms")
    added = command(add, "add", _RUN, "configure an account and connect it")
    login = command(add, "login", _RUN, "enter new credentials of an account")
    logout = command(add, "logout", _RUN, "remove the credentials of an account")
    remove = command(add, "remove", _RUN, "remove an account with its settings")
    restart = command(add, "restart", _RUN, "reconnect an account")
    status = command(add, "status", _RUN, "show the state of each account, with a remedy")
    for parser in (added, login, logout, remove, restart):
        parser.add_argument("channel", metavar="CHANNEL", help="the platform, such as telegram")
        parser.add_argument("--account", metavar="ID", default="default", help="name it")
    for parser in (added, login):
        parser.add_argument("--secret", metavar="TEXT", help="the credential; - reads stdin")
        parser.add_argument(
            "--set",
            metavar="KEY=VALUE",
            action="append",
            default=[],
            help="a further setting of the account",
        )
        parser.add_argument(
            "--oauth",
            metavar="PROVIDER",
            choices=("google", "microsoft", "custom"),
            help="sign in in the browser: google, microsoft, or custom",
        )
        parser.add_argument(
            "--link", action="store_true", help="link with a phone by a QR code, as Signal does"
        )
    status.add_argument(
        "channel", nargs="?", metavar="CHANNEL", help="only accounts of this platform"
    )
    status.add_argument("--probe", action="store_true", help="ask each platform now")
    parsers = {
        "list": listing,
        "add": added,
        "login": login,
        "logout": logout,
        "remove": remove,
        "restart": restart,
        "status": status,
    }
    for name, parser in parsers.items():
        parser.set_defaults(action=name)
        output(reach(parser) if name in {"restart", "status"} else parser)
