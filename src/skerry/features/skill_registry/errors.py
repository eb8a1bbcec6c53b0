"""The errors of the skill registry."""

from skerry.model.errors import SkerryError


class SkillError(SkerryError):
    """A skill or an archive is not valid, or a command on it was refused."""

    code = "skill"


class BlockedError(SkillError):
    """The registry calls a skill or a version malware."""

    code = "skill.blocked"


class RegistryError(SkerryError):
    """The registry could not be reached, refused a request, or sent an invalid response."""

    code = "skill.registry"

    def __init__(self, message: str, remedy: str = "", status: int = 0) -> None:
        super().__init__(message, remedy)
        self.status = status
        """HTTP status of the response; 0 without one."""
