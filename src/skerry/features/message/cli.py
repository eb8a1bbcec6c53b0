"""The parser of `skerry message`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output, reach

_RUN = "skerry.features.message.cli_run"


def add(message: ArgumentParser) -> None:
    """Adds what is beneath `skerry message`."""
    add = message.add_subparsers(metavar="COMMAND", title="commands").add_parser
    send = command(add, "send", _RUN, "send a message")
    poll = command(add, "poll", _RUN, "send a question with options")
    react = command(add, "react", _RUN, "set a reaction on a message")
    for parser in (send, poll, react):
        parser.add_argument(
            "--to", required=True, metavar="ID", help="the person, or group:ID, or channel:ID"
        )
        parser.add_argument("--channel", metavar="CHANNEL", help="the platform; else the first")
        parser.add_argument("--account", metavar="ID", help="the account; else the first")
        parser.add_argument("--thread", metavar="ID", help="the topic or thread")
    send.add_argument("--message", default="", metavar="TEXT", help="in Markdown; - is stdin")
    send.add_argument("--media", metavar="FILE", help="a file of the agent's workspace")
    send.add_argument("--agent", metavar="ID", help="the agent of that workspace")
    send.add_argument("--silent", action="store_true", help="without a sound")
    poll.add_argument("--question", required=True, metavar="TEXT", help="what is asked")
    poll.add_argument(
        "--option", required=True, metavar="TEXT", action="append", help="an answer; two or more"
    )
    poll.add_argument("--most", type=int, default=1, metavar="N", help="answers of a person")
    for parser in (send, poll):
        parser.add_argument("--key", metavar="KEY", help="the same key sends nothing twice")
    react.add_argument("--id", required=True, metavar="ID", help="the message")
    react.add_argument("--emoji", required=True, metavar="EMOJI", help="empty removes it")
    for name, parser in {"send": send, "poll": poll, "react": react}.items():
        parser.set_defaults(action=name)
        output(reach(parser))
