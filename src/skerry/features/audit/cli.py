"""The parser of `skerry audit`."""

from argparse import ArgumentParser

from skerry.cli.options import output, whole


def add(audit: ArgumentParser) -> None:
    """Adds the options of `skerry audit`."""
    audit.set_defaults(module="skerry.features.audit.cli_run", action="audit")
    audit.add_argument("--verify", action="store_true", help="verify the chain of hashes")
    audit.add_argument(
        "--anchor",
        action="append",
        default=[],
        metavar="NUMBER:HASH",
        help="with --verify: an anchor that was printed earlier",
    )
    audit.add_argument(
        "--anchor-file",
        metavar="FILE",
        help="with --verify: compare with the anchors in FILE, then add the present one",
    )
    audit.add_argument(
        "--limit", type=whole(1, 100_000), default=50, metavar="N", help="entries (default: 50)"
    )
    output(audit)
