"""Skills: folders with instructions for one kind of work, which a model reads when needed."""

from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

SKILL_MD: Final = "SKILL.md"
"""File in the folder of a skill, with its front matter and its instructions."""


class Tier(StrEnum):
    """Source of a skill; of two skills with one name, that of the earlier tier is used."""

    WORKSPACE = "workspace"
    """`skills` in the workspace of an agent."""
    MANAGED = "managed"
    """`skills` in the state directory, for all agents."""
    PLUGIN = "plugin"
    """Folders that plugins registered."""
    BUNDLED = "bundled"
    """Skills of this installation."""
    EXTRA = "extra"
    """Directories in `skills.load.extraDirs`."""


class InstallSpec(Struct, frozen=True):
    """A way to install the programs that a skill requires."""

    kind: str
    """`brew`, `apt`, `node`, `go`, `uv` or `download`."""
    id: str
    """Id within its skill; by default the kind and the position, such as `brew-0`."""
    label: str = ""
    """Text for people, such as `Install the GitHub CLI (brew)`."""
    bins: tuple[str, ...] = ()
    """Programs that it installs."""
    os: tuple[str, ...] = ()
    """Systems for which it is meant, such as `linux`; empty for all."""
    package: str = ""
    """Name of the formula, the package or the module, by its kind."""
    url: str = ""
    """Address of a download."""
    sha256: str = ""
    """Hash of a download, 64 hexadecimal digits; empty if the skill names none."""
    archive: str = ""
    """Format of a downloaded archive: `tar.gz`, `tar.bz2` or `zip`; empty to detect it."""
    extract: bool | None = None
    """True to unpack a download; None to decide by its format."""
    strip_components: int | None = None
    """Number of leading folders that are dropped from the names in an archive."""
    target_dir: str = ""
    """Folder for a download."""


class Skill(Struct, frozen=True):
    """One skill, from its SKILL.md."""

    name: str
    description: str
    folder: Path
    """Absolute path without links."""
    plugin: str = ""
    """Id of its plugin; empty for a skill of another tier."""
    homepage: str = ""
    emoji: str = ""
    is_listed: bool = True
    """False for a skill that no prompt lists."""
    is_always: bool = False
    """True if its requirements are not checked."""
    requires: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Requirements by kind: `bins`, `anyBins`, `env`, `config`, `os`."""
    unmet: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Requirements that this machine does not meet, by kind."""
    tier: Tier = Tier.PLUGIN
    key: str = ""
    """Key of its entry in the configuration, if that is not its name."""
    is_invocable: bool = True
    """False for a skill without a command."""
    tool: str = ""
    """Tool that its command calls; empty for a message to the model."""
    primary_env: str = ""
    """Environment variable with the key of its service."""
    install: tuple[InstallSpec, ...] = ()
    """Ways to install the programs that it requires."""
    off: str = ""
    """Key of the configuration that disables it; empty if it is enabled."""
    doubt: str = ""
    """Reason why its SKILL.md does not count as the owner's text; empty if it does."""

    @property
    def is_eligible(self) -> bool:
        """Returns whether the skill may be used."""
        return not (self.unmet or self.off or self.doubt)

    @property
    def is_offered(self) -> bool:
        """Returns whether prompts list the skill."""
        return self.is_listed and self.is_eligible

    @property
    def location(self) -> Path:
        """Returns the path of its instructions."""
        return self.folder / SKILL_MD

    @property
    def entry(self) -> str:
        """Returns the key of the skill in `skills.entries`."""
        return self.key or self.name

    @property
    def prompt_path(self) -> str:
        """Returns the path for the tool `read`: in a workspace relative to the workspace."""
        if self.tier is Tier.WORKSPACE:
            return f"skills/{self.folder.name}/{SKILL_MD}"
        return str(self.location)


class SkillFault(Struct, frozen=True):
    """A folder that is not used as a skill, with the reason."""

    tier: Tier
    path: Path
    problem: str
    remedy: str = ""


class SkillSet(Struct, frozen=True):
    """The skills of one agent."""

    skills: tuple[Skill, ...] = ()
    """One skill for each name, in the order of tiers and names; also those that are not offered."""
    hidden: tuple[Skill, ...] = ()
    """Skills with a name that a skill of an earlier tier has."""
    faults: tuple[SkillFault, ...] = ()

    def find(self, name: str) -> Skill | None:
        """Returns the skill with that name, in any case; None if there is none."""
        folded = name.casefold()
        return next((skill for skill in self.skills if skill.name.casefold() == folded), None)

    def offered(self, names: tuple[str, ...] | None = None) -> tuple[Skill, ...]:
        """Returns the skills for a prompt, of those with these names; None is all."""
        return tuple(
            [
                skill
                for skill in self.skills
                if skill.is_offered and (names is None or skill.name in names)
            ]
        )

    def folders(self, names: tuple[str, ...] | None = None) -> tuple[Path, ...]:
        """Returns the folders of the skills that a run may use, by itself or by their commands.

        Those in a workspace are left out. `names` restricts the skills; None is all.
        """
        return tuple(
            skill.folder
            for skill in self.skills
            if skill.is_eligible
            and (skill.is_listed or skill.is_invocable)
            and skill.tier is not Tier.WORKSPACE
            and (names is None or skill.name in names)
        )
