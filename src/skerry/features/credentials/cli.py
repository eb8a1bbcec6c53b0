"""The parser of `skerry auth`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output

_RUN = "skerry.features.credentials.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry auth`."""
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    for name, text in (
        ("list", "list the profiles of an agent, and their cooldowns"),
        ("add", "store a key or token, entered at a prompt or read from a pipe"),
        ("remove", "remove a profile"),
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
            parser.add_argument(
                "--clear",
                action="store_true",
                help="remove the order, so that the profiles alternate again",
            )


def _secret(parser: ArgumentParser) -> None:
    kinds = ["api_key", "token"]
    parser.add_argument(
        "--type", choices=kinds, default="api_key", help="kind of the credential (default: api_key)"
    )
    parser.add_argument("--env", metavar="VAR", help="store only the name of a variable")
    text = "store the secret in the profile's file (0600) instead of the vault"
    parser.add_argument("--plain", action="store_true", help=text)
    parser.add_argument(
        "--no-test", action="store_true", help="store the credential without a trial call"
    )
    text = "model of the trial call (default: the answering one, else the provider's default)"
    parser.add_argument("--model", metavar="MODEL", default="", help=text)
