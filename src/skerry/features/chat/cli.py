"""The parser of `skerry chat`."""

from argparse import ArgumentParser

from skerry.cli.options import message, reach, session

_RUN = "skerry.features.chat.cli_run"


def add(chat: ArgumentParser) -> None:
    """Adds the options of `skerry chat`."""
    chat.set_defaults(module=_RUN)
    chat.add_argument("-m", "--message", metavar="TEXT", help="first message")
    message(chat, "image for the first message; repeatable")
    session(reach(chat))
