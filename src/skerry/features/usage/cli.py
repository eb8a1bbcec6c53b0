"""The parser of `skerry usage`."""

from argparse import ArgumentParser

from skerry.cli.options import days, output, reach

_RUN = "skerry.features.usage.cli_run"
SUMS = ("model", "agent", "channel", "purpose", "session", "day")
"""As `store.usage` has them."""


def add(parser: ArgumentParser) -> None:
    """Adds what `skerry usage` has."""
    parser.set_defaults(module=_RUN)
    parser.add_argument(
        "--days", type=days, default=30, metavar="N", help="the last so many (default: 30)"
    )
    parser.add_argument("--by", choices=SUMS, default="model", help="added up by this")
    parser.add_argument("--agent", metavar="ID", help="only of this agent")
    output(reach(parser))
