"""`skerry config`: shows, changes and checks the configuration, with or without a gateway."""

import json
import os
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any, Final

from skerry.cli.config_change import author, change, config_file, report_written
from skerry.cli.failure import FailedError, complain
from skerry.cli.render import notice, plain, show, show_json
from skerry.config import source
from skerry.config.backup import REJECTED, copy_path
from skerry.config.json_schema import schema
from skerry.config.load import Loaded, checked, load_good, locate
from skerry.config.paths import MISSING, lookup, parse_key_path, show_key_path
from skerry.config.redact import JSON, redact_config
from skerry.config.write import write_text
from skerry.infra.atomic import write_atomic
from skerry.infra.process import NotStartedError, hand_over
from skerry.model.errors import ConfigError, ConfigInvalidError

USAGE: Final = 2


def run(arguments: Namespace) -> int:
    """Runs `skerry config ...`; returns the exit code."""
    match arguments.action:
        case "get":
            return _get(arguments)
        case "set":
            return _set(arguments)
        case "unset":
            code = change({_checked_path(arguments.place): None}, quiet=arguments.json)
            if arguments.json and code == 0:
                show_json({"ok": True, "path": arguments.place})
            return code
        case "validate":
            return _validate(arguments)
        case "schema":
            show_json(schema())
        case "edit":
            return _edit()
        case _:
            show(str(locate(os.environ)[1]))
    return 0


def _get(arguments: Namespace) -> int:
    loaded = load_good(os.environ, fetch=arguments.reveal)
    if loaded.broken is not None:
        notice(f"{loaded.config.path} is broken; this is the last good configuration.")
    value = lookup(_effective(loaded, reveal=arguments.reveal), _parsed_path(arguments.place))
    if value is MISSING:
        remedy = "List all values: skerry config get. List all keys: skerry config schema"
        raise FailedError(f"The configuration has no value {arguments.place}.", remedy)
    value = _with_integers(value)
    if arguments.json:
        show_json(value)
    else:
        show(plain(value if isinstance(value, str) else json.dumps(value, indent=2)))
    return 0


def _with_integers(value: JSON) -> JSON:
    """Returns the value with integers in place of whole floats: 33, not 33.0."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {key: _with_integers(item) for key, item in value.items()}
        case list():
            return [_with_integers(item) for item in value]
        case _:
            return value


def _effective(loaded: Loaded, *, reveal: bool) -> JSON:
    """Returns the effective configuration, with the defaults."""
    if not reveal:
        return redact_config(loaded.config, loaded.expanded.used)
    with_defaults = loaded.config.model_dump(mode="json", by_alias=True)
    return _revealed(with_defaults, loaded.expanded.tree)


def _revealed(redacted: JSON, real: Any) -> JSON:
    """Returns the tree with its secrets, which otherwise print as stars."""
    match redacted, real:
        case dict(), dict():
            return {key: _revealed(item, real.get(key)) for key, item in redacted.items()}
        case list(), list() if len(redacted) == len(real):
            return [
                _revealed(item, real_item) for item, real_item in zip(redacted, real, strict=True)
            ]
        case str(), str() if set(redacted) == {"*"}:
            return real
        case _:
            return redacted


def _set(arguments: Namespace) -> int:
    text = sys.stdin.read().rstrip("\n") if arguments.value == "-" else arguments.value
    value: JSON
    try:
        value = json.loads(text) if arguments.strict else _json5(text)
    except ValueError as error:
        remedy = """Quote it for the shell: '{"a": 1}', '"text"'."""
        return complain(f"The value is not JSON: {error}.", remedy, "skerry config set", USAGE)
    if value is None:
        return complain(
            "null is not a value.",
            f"Remove it: skerry config unset {arguments.place}",
            "skerry config set",
            USAGE,
        )
    return change({_checked_path(arguments.place): value})


def _json5(text: str) -> JSON:
    """Parses the text as JSON5; returns the text itself if it is not valid."""
    try:
        value: JSON = source.parse_any(Path("value"), text) if text.strip() else text
    except ConfigInvalidError:
        return text
    return value


def _checked_path(text: str) -> str:
    return show_key_path(parse_key_path(text))


def _parsed_path(text: str | None) -> tuple[str | int, ...]:
    return parse_key_path(text) if text else ()


def _validate(arguments: Namespace) -> int:
    state_dir, path = locate(os.environ)
    path = Path(arguments.file).absolute() if arguments.file else path
    if arguments.file and not path.is_file():
        raise FailedError(f"{path} does not exist.", "Pass an existing file.")
    try:
        loaded = checked(source.read(path), os.environ, state_dir)
    except ConfigInvalidError as error:
        if not arguments.json:
            raise
        rows = [_row(issue.path, issue.message, issue.remedy) for issue in error.issues]
        show_json({"path": str(path), "valid": False, "issues": rows, "warnings": []})
        return 1
    if arguments.json:
        warned = [
            _row(warning.path, warning.message, warning.remedy) for warning in loaded.warnings
        ]
        show_json({"path": str(path), "valid": True, "issues": [], "warnings": warned})
        return 0
    for issue in loaded.warnings:
        notice(f"warning: {plain(str(issue))}")
    exists = loaded.source.exists
    show(f"{path} is valid." if exists else f"{path} does not exist; the defaults apply.")
    return 0


def _row(path: str, message: str, remedy: str) -> dict[str, str]:
    return {"path": path, "message": message, "remedy": remedy}


def _edit() -> int:
    """Opens a copy in the editor; it replaces the file once it passes the check."""
    path = config_file().resolve()
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    before = path.read_bytes() if path.exists() else b"{\n}\n"
    copy = copy_path(path, REJECTED)
    if copy.exists():
        notice(f"Continuing with {copy}, the edit that was rejected last time.")
    else:
        write_atomic(copy, before)
    try:
        code = hand_over([*shlex.split(editor), str(copy)])
    except NotStartedError as error:
        copy.unlink()
        message = f"{editor} cannot be started: {error.reason}."
        return complain(message, "Name an editor in EDITOR.", "skerry config edit")
    after = copy.read_bytes()
    if code != 0 or after == before:
        copy.unlink()
        notice("Nothing changed.")
        return 0 if code == 0 else 1
    try:
        base = (
            source.Source(path, before.decode("utf-8", "replace")).hash if path.exists() else None
        )
        change = write_text(path, source.text(copy, after), author(), base=base)
    except ConfigError as error:
        error.remedy = f"Your text is kept in {copy}; `skerry config edit` continues with it."
        raise
    copy.unlink()
    return report_written(change)
