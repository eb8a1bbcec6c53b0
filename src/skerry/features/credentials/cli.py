"""The parser of `skerry auth`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output

_RUN = "skerry.features.credentials.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds what is beneath `skerry auth`."""
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    for name, text in (
        ("list", "the profiles of an agent, and their cooldowns"),
        ("add", "store a key or token, entered at a prompt or read from a pipe"),
        ("remove", "forget a profile"),
        ("order", "show or set the order of a provider's profiles"),
        ("login", "sign in to a provider in the browser"),
    ):
        parser = output(command(add, name, _RUN, text))
        parser.set_defaults(action=name)
        parser.add_argument("--agent", metavar="ID", help="agent (default: the default agent)")
        if name in {"add", "order", "login"}:
            parser.add_argument("provider", metavar="PROVIDER", help="such as openai")
        if name in {"add", "login"}:
            parser.add_argument(
                "--name", default="default", help="name among the provider's profiles (default)"
            )
        if name == "remove":
            parser.add_argument("profile", metavar="PROFILE", help="such as openai:default")
        if name == "add":
            _secret(parser)
        if name == "order":
            parser.add_argument("profiles", nargs="*", metavar="PROFILE", help="first to last")
            parser.add_argument("--clear", action="store_true", help="let them take turns again")


def _secret(parser: ArgumentParser) -> None:
    kinds = ["api_key", "token"]
    parser.add_argument("--type", choices=kinds, default="api_key", help="what it is (api_key)")
    parser.add_argument("--env", metavar="VAR", help="keep only the name of a variable")
    text = "write it into the profile's file (0600), not into the vault"
    parser.add_argument("--plain", action="store_true", help=text)
    parser.add_argument("--no-test", action="store_true", help="store it without a trial call")
    text = "try it with this one (default: the one that answers, else the provider's usual one)"
    parser.add_argument("--model", metavar="MODEL", default="", help=text)
