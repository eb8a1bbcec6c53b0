"""The parser of `skerry message`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach

_RUN = "skerry.features.message.cli_run"


def add(message: ArgumentParser) -> None:
    """Adds the commands of `skerry message`."""
    add = message.add_subparsers(metavar="COMMAND", title="commands").add_parser
    send = command(add, "send", _RUN, "send a message")
    poll = command(add, "poll", _RUN, "send a question with options")
    react = command(add, "react", _RUN, "set a reaction on a message")
    for parser in (send, poll, react):
        parser.add_argument(
            "--to", required=True, metavar="ID", help="a person's id, or group:ID, or channel:ID"
        )
        parser.add_argument("--channel", metavar="CHANNEL", help="platform (default: the first)")
        parser.add_argument("--account", metavar="ID", help="account (default: the first)")
        parser.add_argument("--thread", metavar="ID", help="topic or thread")
    send.add_argument(
        "--message", default="", metavar="TEXT", help="text in Markdown; - reads stdin"
    )
    send.add_argument("--media", metavar="FILE", help="file of the agent's workspace")
    send.add_argument("--agent", metavar="ID", help="agent of that workspace")
    send.add_argument("--silent", action="store_true", help="send without a sound")
    poll.add_argument("--question", required=True, metavar="TEXT", help="question of the poll")
    poll.add_argument(
        "--option",
        required=True,
        metavar="TEXT",
        action="append",
        help="option of the poll; at least two",
    )
    poll.add_argument(
        "--most", type=int, default=1, metavar="N", help="maximum number of answers of a person"
    )
    for parser in (send, poll):
        parser.add_argument(
            "--key", metavar="KEY", help="idempotency key: a repeated key sends nothing"
        )
    react.add_argument("--id", required=True, metavar="ID", help="the message")
    react.add_argument(
        "--emoji", required=True, metavar="EMOJI", help="emoji; empty removes the reaction"
    )
    for name, parser in {"send": send, "poll": poll, "react": react}.items():
        parser.set_defaults(action=name)
        output(reach(parser))
