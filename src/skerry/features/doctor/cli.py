"""The parser of `skerry doctor`."""

from argparse import ArgumentParser

from skerry.cli.options import output

_RUN = "skerry.features.doctor.cli_run"


def add(parser: ArgumentParser) -> None:
    """Adds the options of `skerry doctor`."""
    output(parser).set_defaults(module=_RUN)
    parser.add_argument(
        "--fix", action="store_true", help="make the state readable for its owner only"
    )
