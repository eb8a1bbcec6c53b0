"""`skerry hooks`: lists, checks, enables and disables hooks."""

import hashlib
import os
import sqlite3
from argparse import Namespace
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Final

from skerry.cli.config_change import change
from skerry.cli.failure import FailedError, complain
from skerry.cli.render import one_line, show, show_json, styled
from skerry.config.load import load_good
from skerry.config.root import Config
from skerry.infra import sqlite
from skerry.plugins.folders import HANDLER, HookReport, HookStatus, find_hooks
from skerry.policy.file_records import FileRecords
from skerry.store import DATABASE, file_records
from skerry.store.unit import Reader

_STYLES: Final = {"enabled": "green", "disabled": "dim", "missing": "yellow", "failed": "red"}


def run(arguments: Namespace) -> int:
    """Runs `skerry hooks ...`; returns the exit code."""
    config = load_good(os.environ, fetch=False).config
    reports = [find_hook.report for find_hook in find_hooks(config, os.environ, _records(config))]
    match arguments.action:
        case "list":
            return _list(reports, as_json=arguments.json)
        case "check":
            return _check(reports, as_json=arguments.json)
    report = next((hook for hook in reports if hook.name == arguments.name), None)
    if report is None:
        names = ", ".join(hook.name for hook in reports)
        raise FailedError(f"Unknown hook {arguments.name!r}.", f"Hooks: {names}.")
    match arguments.action:
        case "info":
            return _info(report, as_json=arguments.json)
        case "enable":
            code = _enable(report, pin=arguments.pin, quiet=arguments.json)
        case _:
            code = change({f"{_entry(report)}.enabled": False}, quiet=arguments.json)
    if arguments.json and code == 0:
        show_json({"ok": True, "hook": report.name, "enabled": arguments.action == "enable"})
    return code


def _records(config: Config) -> FileRecords:
    """Returns the recorded writers of files, also while a gateway runs.

    Raises:
        FailedError: the database cannot be read, so no file could count as the owner's.
    """
    path = config.state_dir / DATABASE
    if not path.exists():
        return FileRecords()
    try:
        with closing(sqlite.connect(path, read_only=True)) as connection:
            return FileRecords(file_records.every(Reader(connection)))
    except sqlite3.Error as error:
        message = f"The records of the hooks' files cannot be read: {error}."
        remedy = "Start the gateway, which migrates the database: skerry gateway run."
        raise FailedError(message, remedy) from error


def _list(reports: list[HookReport], *, as_json: bool) -> int:
    if as_json:
        show_json([asdict(hook) for hook in reports])
        return 0
    for hook in reports:
        mark = styled(f"{hook.status:8}", _STYLES[hook.status])
        show(
            f"{mark} {one_line(f'{hook.emoji} {hook.name}').strip()}  {one_line(hook.description)}"
        )
        if hook.reason:
            show(f"{'':8} {one_line(hook.reason)}")
        for file in hook.files:
            mark = one_line(file.author_text)
            show(f"{'':8} {styled(mark, 'yellow') if file.doubt else styled(mark, 'dim')}")
    return 0


def _check(reports: list[HookReport], *, as_json: bool) -> int:
    """Prints the reasons why enabled hooks do not run."""
    not_running = [
        hook for hook in reports if hook.status in {HookStatus.FAILED, HookStatus.MISSING}
    ]
    if as_json:
        show_json([asdict(hook) for hook in not_running])
    else:
        on = sum(hook.status is HookStatus.ENABLED for hook in reports)
        show(f"{on} of {len(reports)} hooks run after the next start.")
        for hook in not_running:
            show(f"{one_line(hook.name)}: {one_line(hook.reason)}")
            show(f"{'':4}Try: {one_line(hook.remedy)}")
    return 1 if not_running else 0


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
        *(("file", file.author_text) for file in report.files),
    )
    for label, text in rows:
        if text.strip():
            show(f"{label:13} {one_line(text)}")
    return 0


def _enable(report: HookReport, *, pin: bool, quiet: bool) -> int:
    """Enables a hook; one in a workspace only with the hash of its present content."""
    values: dict[str, bool | str] = {f"{_entry(report)}.enabled": True}
    if report.place == "workspace" and not pin:
        return complain(
            f"{report.path} is in a workspace, where agents write.",
            f"Read its {HANDLER}, then: skerry hooks enable {report.name} --pin",
            "skerry hooks enable",
        )
    if pin:
        try:
            code = (Path(report.path) / HANDLER).read_bytes()
        except OSError as error:
            message = f"{report.path}/{HANDLER} cannot be read: {error.strerror}."
            return complain(message, "Only a folder with this file can be pinned.", "skerry hooks")
        values[f"{_entry(report)}.sha256"] = hashlib.sha256(code).hexdigest()
    return change(values, quiet=quiet)


def _entry(report: HookReport) -> str:
    return f"hooks.internal.entries.{report.name}"
