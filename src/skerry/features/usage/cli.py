"""The parser of `skerry usage`."""

from argparse import ArgumentParser

from skerry.cli.options import days, output, reach

_RUN = "skerry.features.usage.cli_run"
SUMS = ("model", "agent", "channel", "purpose", "session", "day")
"""Sums of `store.usage`."""


def add(parser: ArgumentParser) -> None:
    """Adds the options of `skerry usage`."""
    parser.set_defaults(module=_RUN)
    parser.add_argument(
        "--days", type=days, default=30, metavar="N", help="number of days (default: 30)"
    )
    parser.add_argument(
        "--by", choices=SUMS, default="model", help="property for the sums (default: model)"
    )
    parser.add_argument("--agent", metavar="ID", help="only calls of this agent")
    output(reach(parser))
