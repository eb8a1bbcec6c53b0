"""`skerry hooks`: the hooks there are, what they need, and switching them on and off."""

import hashlib
import os
import sqlite3
from argparse import Namespace
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Final

from skerry.cli.config import change
from skerry.cli.failure import FailedError, complain
from skerry.cli.render import one_line, show, show_json, styled
from skerry.config.load import load_good
from skerry.config.root import Config
from skerry.infra import sqlite
from skerry.plugins.folders import HANDLER, HookReport, HookStatus, find_hooks
from skerry.policy.records import Records
from skerry.store import DATABASE, files
from skerry.store.unit import Reader

_STYLES: Final = {"enabled": "green", "disabled": "dim", "missing": "yellow", "failed": "red"}


def run(arguments: Namespace) -> int:
    """Runs `skerry hooks ...`; returns the exit code."""
    config = load_good(os.environ, fetch=False).config
    found = [find_hook.report for find_hook in find_hooks(config, os.environ, _records(config))]
    match arguments.action:
        case "list":
            return _list(found, as_json=arguments.json)
        case "check":
            return _check(found, as_json=arguments.json)
    report = next((one for one in found if one.name == arguments.name), None)
    if report is None:
        known = ", ".join(one.name for one in found)
        raise FailedError(f"Unknown hook {arguments.name!r}.", f"Hooks: {known}.")
    match arguments.action:
        case "info":
            return _info(report, as_json=arguments.json)
        case "enable":
            return _enable(report, pin=arguments.pin)
        case _:
            return change({f"{_entry(report)}.enabled": False})


def _records(config: Config) -> Records:
    """Returns who wrote which file, as the database has it, also while a gateway runs.

    Raises:
        FailedError: it cannot be read: nobody is then told that a file is the owner's.
    """
    path = config.state_dir / DATABASE
    if not path.exists():
        return Records()
    try:
        with closing(sqlite.connect(path, read_only=True)) as connection:
            return Records(files.every(Reader(connection)))
    except sqlite3.Error as error:
        message = f"Who wrote the files of the hooks cannot be read: {error}."
        remedy = "Start the gateway, which brings the database up to date: skerry gateway run."
        raise FailedError(message, remedy) from error


def _list(found: list[HookReport], *, as_json: bool) -> int:
    if as_json:
        show_json([asdict(one) for one in found])
        return 0
    for one in found:
        mark = styled(f"{one.status:8}", _STYLES[one.status])
        show(f"{mark} {one_line(f'{one.emoji} {one.name}').strip()}  {one_line(one.description)}")
        if one.reason:
            show(f"{'':8} {one_line(one.reason)}")
        for file in one.files:
            mark = one_line(file.told)
            show(f"{'':8} {styled(mark, 'yellow') if file.doubt else styled(mark, 'dim')}")
    return 0


def _check(found: list[HookReport], *, as_json: bool) -> int:
    """Says what keeps hooks that are switched on from taking part."""
    wrong = [one for one in found if one.status in {HookStatus.FAILED, HookStatus.MISSING}]
    if as_json:
        show_json([asdict(one) for one in wrong])
    else:
        on = sum(one.status is HookStatus.ENABLED for one in found)
        show(f"{on} of {len(found)} hooks take part at the next start.")
        for one in wrong:
            show(f"{one_line(one.name)}: {one_line(one.reason)}")
            show(f"{'':4}Try: {one_line(one.remedy)}")
    return 1 if wrong else 0


def _info(report: HookReport, *, as_json: bool) -> int:
    if as_json:
        show_json(asdict(report))
        return 0
    rows = (
        ("name", f"{report.emoji} {report.name}"),
        ("what it does", report.description),
        ("status", report.status),
        ("why", report.reason),
        ("try", report.remedy),
        ("events", ", ".join(report.events)),
        ("from", f"{report.place} {report.path}"),
        ("page", report.homepage),
        ("sha256", report.sha256),
        *(("file", file.told) for file in report.files),
    )
    for label, text in rows:
        if text.strip():
            show(f"{label:13} {one_line(text)}")
    return 0


def _enable(report: HookReport, *, pin: bool) -> int:
    """Switches it on; what lies in a workspace only with the hash of what is there now."""
    values: dict[str, bool | str] = {f"{_entry(report)}.enabled": True}
    if report.place == "workspace" and not pin:
        return complain(
            f"{report.path} lies in a workspace, where agents write.",
            f"Look at {HANDLER} there, then: skerry hooks enable {report.name} --pin",
            "skerry hooks enable",
        )
    if pin:
        try:
            code = (Path(report.path) / HANDLER).read_bytes()
        except OSError as error:
            message = f"{report.path}/{HANDLER} cannot be read: {error.strerror}."
            return complain(message, "Only folders with that file are pinned.", "skerry hooks")
        values[f"{_entry(report)}.sha256"] = hashlib.sha256(code).hexdigest()
    return change(values)


def _entry(report: HookReport) -> str:
    return f"hooks.internal.entries.{report.name}"
