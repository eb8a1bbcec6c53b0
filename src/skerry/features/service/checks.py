"""Check of `skerry doctor` for the service."""

from collections.abc import Mapping

from skerry.config.root import Config
from skerry.features.service import systemd_unit
from skerry.model.errors import StateError
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation


async def unit_of_this(installation: Installation) -> list[Check]:
    """Checks that the systemd unit belongs to this installation."""
    if installation.config is None:
        return []
    return [_unit(installation.environ, installation.config)]


def _unit(environ: Mapping[str, str], config: Config) -> Check:
    file = systemd_unit.path(environ)
    try:
        installed = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return Check("service", Level.OK, "not installed; install it with `skerry service install`")
    except (OSError, ValueError) as error:
        return Check("service", Level.WARNING, f"{file}: {error}.", "skerry service install")
    try:
        current = systemd_unit.current(config)
    except StateError as error:
        return Check("service", Level.WARNING, str(error), error.remedy)
    if installed != current:
        message = f"{file} is from another installation, version or configuration."
        return Check("service", Level.WARNING, message, "skerry service install")
    return Check("service", Level.OK, str(file))
