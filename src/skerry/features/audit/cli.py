"""The parser of `skerry audit`."""

from argparse import ArgumentParser

from skerry.cli.options import output, whole


def add(audit: ArgumentParser) -> None:
    """Adds the options of `skerry audit`."""
    audit.set_defaults(module="skerry.features.audit.cli_run", action="audit")
    audit.add_argument("--verify", action="store_true", help="follow the chain of hashes")
    audit.add_argument(
        "--limit", type=whole(1, 100_000), default=50, metavar="N", help="entries (default: 50)"
    )
    output(audit)
