"""The parser of `skerry skills`."""

from argparse import ArgumentParser

from skerry.cli.options import subcommands


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry skills`; the feature `skill_registry` adds more."""
    subcommands(group)
