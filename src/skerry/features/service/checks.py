"""Checks of `skerry doctor` of the service."""

from collections.abc import Mapping

from skerry.config.root import Config
from skerry.features.service import systemd_unit
from skerry.model.errors import StateError
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation


async def unit_of_this(installation: Installation) -> list[Check]:
    """Returns whether the systemd unit is the one of this installation."""
    if installation.config is None:
        return []
    return [_unit(installation.environ, installation.config)]


def _unit(environ: Mapping[str, str], config: Config) -> Check:
    file = systemd_unit.path(environ)
    try:
        written = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Check("service", Level.OK, "not installed; `skerry service install` does that")
    except (OSError, ValueError) as error:
        return Check("service", Level.WARNING, f"{file}: {error}.", "skerry service install")
    try:
        current = systemd_unit.current(config)
    except StateError as error:
        return Check("service", Level.WARNING, str(error), error.remedy)
    if written != current:
        message = f"{file} is from another installation, version or configuration."
        return Check("service", Level.WARNING, message, "skerry service install")
    return Check("service", Level.OK, str(file))
