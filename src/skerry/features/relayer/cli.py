"""The parser of `skerry relayer`: passes all words to the relayer's command line."""

from argparse import REMAINDER, ArgumentParser


def add(group: ArgumentParser) -> None:
    """Adds the words that the relayer parses."""
    group.add_argument(
        "words",
        nargs=REMAINDER,
        metavar="COMMAND ...",
        help="init, account, key, serve, ...; without a command the relayer lists them",
    )
    group.set_defaults(module="skerry.features.relayer.cli_run", action="relayer")
