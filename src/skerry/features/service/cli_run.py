"""`skerry service`: keeps the gateway running as a systemd service of this user."""

import getpass
import os
import shutil
import sys
from argparse import Namespace
from typing import Final

from skerry.cli.failure import complain
from skerry.cli.render import notice, one_line, plain, show, show_json, styled
from skerry.client.discover import configured
from skerry.config.load import locate
from skerry.features.service.systemd_unit import ENVIRONMENT, NAME, current, path
from skerry.infra.atomic import write_atomic
from skerry.infra.process import LateError, Program, run_blocking
from skerry.model.errors import ServiceError
from skerry.providers.builtin_providers import HOSTED_PROVIDERS

_SECONDS: Final = 60.0
"""Time limit of systemd, in seconds; a stop waits for the drain of the gateway."""


def run(arguments: Namespace) -> int:
    """Runs `skerry service install`, `uninstall`, `status` or `show`; returns the exit code."""
    match arguments.action:
        case "install":
            return _install(start=not arguments.no_start, as_json=arguments.json)
        case "uninstall":
            return _uninstall(as_json=arguments.json)
        case "status":
            return _status(as_json=arguments.json)
        case _:
            show(plain(_unit()).rstrip("\n"))
            return 0


def _unit() -> str:
    return current(configured(os.environ).config)


def _install(*, start: bool, as_json: bool) -> int:
    text, file = _unit(), path(os.environ)
    _systemctl("show-environment")  # fails first when systemd cannot be reached
    before = file.read_bytes() if file.exists() else None
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, text.encode())
    try:
        _systemctl("daemon-reload")
        _systemctl("enable", NAME)
    except ServiceError as error:
        if before is None:
            file.unlink()
        else:
            write_atomic(file, before)
        error.remedy = f"Nothing was installed. {error.remedy}"
        raise
    if start:
        _systemctl("restart", NAME)
    if as_json:
        show_json({"ok": True, "path": str(file), "started": start})
        return 0
    show(f"Wrote {file}")
    if start:
        show(f"{styled('Running', 'green')}, and started at each login and after a crash.")
    else:
        show(f"The service starts at the next login. Start it now: systemctl --user start {NAME}")
    _hint_at_keys()
    _hint_at_linger()
    return 0


def _hint_at_keys() -> None:
    """Prints the keys of this shell that a service does not receive."""
    variables = {name for provider in HOSTED_PROVIDERS for name in provider.variables}
    referred = configured(os.environ).expanded.used
    names = sorted(name for name in variables.union(referred) if os.environ.get(name))
    if names:
        file = locate(os.environ)[0] / ENVIRONMENT
        notice(
            f"{styled('note:', 'yellow', sys.stderr)} a service does not receive the variables of"
            f" this shell ({', '.join(names)}). Write NAME=value lines into {file} (mode 0600),"
            " or keep the keys in the configuration."
        )


def _hint_at_linger() -> None:
    """Prints the command that keeps user services running without a login."""
    loginctl = shutil.which("loginctl")
    if loginctl is None:
        return
    user = getpass.getuser()
    command = [loginctl, "show-user", user, "--property=Linger", "--value"]
    finished = run_blocking(Program(command, os.environ), seconds=_SECONDS)
    if finished.out.strip() != b"yes":
        notice(f"Keep it running without a login: loginctl enable-linger {user}")


def _uninstall(*, as_json: bool) -> int:
    file = path(os.environ)
    is_there = file.exists()
    if is_there:
        _systemctl("disable", "--now", NAME)
        file.unlink()
        _systemctl("daemon-reload")
    if as_json:
        show_json({"ok": True, "path": str(file), "removed": is_there})
    elif is_there:
        show(f"Stopped, and removed {file}. State and configuration are untouched.")
    else:
        show(f"Nothing to remove: {file} does not exist")
    return 0


def _status(*, as_json: bool) -> int:
    file = path(os.environ)
    state = {"installed": file.exists(), "path": str(file), "active": "unknown", "enabled": ""}
    if file.exists():
        text = _systemctl("show", NAME, "--property=ActiveState,UnitFileState")
        states = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        state["active"] = states.get("ActiveState", "unknown")
        state["enabled"] = states.get("UnitFileState", "")
        state["current"] = file.read_text(encoding="utf-8") == _unit()
    if as_json:
        show_json(state)
    elif not file.exists():
        return complain(
            "The service is not installed.", "skerry service install", "skerry service status"
        )
    else:
        show(f"{state['active']}, {state['enabled'] or 'not enabled'}: {file}")
        if not state["current"]:
            notice("The unit is from another installation or version: skerry service install")
    return 0 if state["active"] == "active" else 1


def _systemctl(*arguments: str) -> str:
    """Runs `systemctl --user` and returns its output.

    Raises:
        ServiceError: systemctl is missing, fails, or takes more than a minute.
    """
    program = shutil.which("systemctl")
    if program is None:
        raise _failed("This system has no systemd (no systemctl in PATH).")
    command = [program, "--user", *arguments]
    try:
        finished = run_blocking(Program(command, os.environ), seconds=_SECONDS)
    except LateError as error:
        raise _failed(f"systemctl {arguments[0]} took more than {_SECONDS:.0f} s.") from error
    out = finished.out.decode(errors="replace")
    if finished.code != 0:
        reason = one_line(finished.err or out) or f"exit code {finished.code}"
        raise _failed(f"systemctl --user {' '.join(arguments)} failed: {reason}")
    return out


def _failed(message: str) -> ServiceError:
    error = ServiceError(message)
    error.remedy = (
        "`skerry service show` prints the unit for another supervisor;"
        " `skerry gateway run` runs in the foreground."
    )
    return error
