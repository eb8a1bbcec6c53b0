"""The systemd user unit that keeps a gateway running; pure, so that it can be printed first."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from skerry.config.root import Config
from skerry.model.errors import StateError

NAME: Final = "skerry.service"
ENVIRONMENT: Final = "service.env"
"""A file in the state directory with `NAME=value` lines: variables that a login shell would
export."""

_TEMPLATE: Final = """\
# Written by `skerry service install`; a change is lost when it is run again.
[Unit]
Description=Skerry gateway
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=300
StartLimitBurst=10

[Service]
Type=exec
ExecStart={command}
Environment={environment}
EnvironmentFile=-{file}
Restart=on-failure
RestartSec=5
TimeoutStopSec={stop_seconds}
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def path(environ: Mapping[str, str]) -> Path:
    """Returns the path of the unit of this user."""
    home = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home).expanduser() / "systemd" / "user" / NAME


def current(config: Config) -> str:
    """Returns the unit that runs this installation with this configuration."""
    command = (sys.executable, "-m", "skerry", "gateway", "run")
    return unit(command, config.state_dir, config.path, config.gateway.drain_seconds)


def unit(command: Sequence[str], state_dir: Path, config: Path, drain_seconds: float) -> str:
    """Returns the text of the unit.

    Args:
        command: Program and arguments of the gateway.
        state_dir: Its state directory.
        config: Its configuration file.
        drain_seconds: Seconds for the end of runs; systemd waits a little longer before it kills.

    Raises:
        StateError: a path has a control character, which could start a new line.

    """
    for word in (*command, str(state_dir), str(config)):
        if not word.isprintable():
            error = StateError(f"The path {word!r} is not allowed in a unit of systemd.")
            error.remedy = "Move it to a path without line breaks or control characters."
            raise error
    names = {"SKERRY_STATE_DIR": state_dir, "SKERRY_CONFIG_PATH": config}
    return _TEMPLATE.format(
        # In a command, unlike in an environment, systemd replaces `$NAME` by variables.
        command=" ".join(_quoted(word).replace("$", "$$") for word in command),
        environment=" ".join(_quoted(f"{name}={value}") for name, value in names.items()),
        file=_escaped(str(state_dir / ENVIRONMENT)),
        stop_seconds=round(drain_seconds) + 15,
    )


def _quoted(word: str) -> str:
    """Quotes a word for systemd, with escaped specifiers."""
    text = _escaped(word).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _escaped(text: str) -> str:
    return text.replace("%", "%%")
