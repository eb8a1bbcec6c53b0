"""The parser of `skerry logs`."""

from argparse import ArgumentParser

from skerry.cli.options import output, reach, whole

_RUN = "skerry.features.logs.cli_run"


def add(logs: ArgumentParser) -> None:
    """Adds the options of `skerry logs`."""
    logs.set_defaults(module=_RUN)
    logs.add_argument("--follow", action="store_true", help="print new lines until Ctrl-C")
    logs.add_argument(
        "--lines",
        type=whole(1, 5000),
        default=100,
        metavar="N",
        help="lines to print first (default: 100)",
    )
    output(reach(logs))
