"""`skerry config migrate`: converts an older file to the keys of this version."""

import difflib
import json
import os
from argparse import Namespace
from typing import Any, Final

from skerry.cli.render import notice, one_line, plain, show, show_json
from skerry.config import source
from skerry.config.backup import BACKUPS, copy_path
from skerry.config.expand import Expanded
from skerry.config.load import locate
from skerry.config.migrations import migrate
from skerry.config.redact import redact
from skerry.config.write import ConfigAuthor, rewrite

_BY: Final = "skerry config migrate"


def run(arguments: Namespace) -> int:
    """Prints the changes; with `--apply` writes them. Returns the exit code.

    Raises:
        ConfigError: the file cannot be read or written; nothing changed.
    """
    state_dir, path = locate(os.environ)
    before = source.read(path)
    migrated = migrate(before.parsed)
    changed = migrated.tree != before.parsed
    is_written = changed and arguments.apply
    if is_written:

        def edit(now: source.Source, _expanded: Expanded) -> dict[str, Any]:
            return migrate(now.parsed).tree

        rewrite(path, edit, ConfigAuthor(_BY, os.environ, state_dir))
    difference = list(_difference(before.parsed, migrated.tree, str(path)))
    if arguments.json:
        report = {
            "path": str(path),
            "done": migrated.changes,
            "diff": difference,
            "written": is_written,
        }
        show_json(report)
        return 0
    if not changed:
        show(f"{path} has the keys of this version; nothing to change.")
        return 0
    for line in difference:
        show(plain(line))
    for change in migrated.changes:
        show(f"- {one_line(change)}")
    if is_written:
        show(f"Written. The previous file is {copy_path(path.resolve(), BACKUPS[0])}.")
    else:
        notice("Nothing was written. Write the changes: skerry config migrate --apply")
    return 0


def _difference(before: Any, after: Any, name: str) -> list[str]:
    """Returns the lines that differ, secrets hidden."""
    old, new = (json.dumps(redact(tree), indent=2).splitlines() for tree in (before, after))
    return list(difflib.unified_diff(old, new, name, f"{name} (new)", lineterm="", n=2))
