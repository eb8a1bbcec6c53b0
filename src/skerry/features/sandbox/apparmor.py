"""AppArmor of this machine, and the profile that containers get."""

from pathlib import Path
from typing import Final

from skerry.model.errors import SandboxError

ENABLED: Final = Path("/sys/module/apparmor/parameters/enabled")
_DOCKER_PROFILE: Final = "docker-default"
"""Profile that the daemon of docker loads when it starts."""


def is_on() -> bool:
    """Returns whether this machine has AppArmor."""
    try:
        return ENABLED.read_text("ascii").startswith("Y")
    except (OSError, ValueError):
        return False


def profile(engine: str, configured: str | None) -> str | None:
    """Returns the profile to pass to an engine; None where the engine chooses, or without AppArmor.

    Raises:
        SandboxError: a profile is configured on a machine without AppArmor.
    """
    if is_on():
        return configured or (_DOCKER_PROFILE if engine == "docker" else None)
    if configured:
        raise SandboxError(
            f"The AppArmor profile {configured!r} has no effect: this machine has no AppArmor.",
            "Remove sandbox.docker.apparmorProfile, or start the machine with AppArmor.",
        )
    return None


def is_confined(label: str) -> bool:
    """Returns true when the label that an engine reports for a container is a profile."""
    return label.strip() not in {"", "unconfined", "<no value>"}
