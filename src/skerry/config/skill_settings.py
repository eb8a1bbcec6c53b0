"""Section `skills`: sources, limits and settings of skills."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from skerry.config.base import OpenSection, with_sections

SkillName = Annotated[str, Field(min_length=1, max_length=64)]


class SkillLoadConfig(OpenSection):
    """Sources of skills besides workspaces, the state directory, plugins and the installation."""

    extra_dirs: tuple[Path, ...] = Field(default=(), max_length=16)
    """Directories whose subfolders are skills; relative to the configuration file. A skill of any
    other source with the same name is used instead."""


class SkillLimitsConfig(OpenSection):
    """Limits on skills."""

    max_candidates_per_root: int = Field(default=300, ge=1, le=10_000)
    """Subfolders of one directory that are examined."""
    max_skills_loaded_per_source: int = Field(default=200, ge=1, le=10_000)
    """Skills of one directory that are used."""
    max_skills_in_prompt: int = Field(default=150, ge=0, le=10_000)
    """Skills that the system prompt lists."""
    max_skills_prompt_chars: int = Field(default=8_000, ge=0, le=1_000_000)
    """Characters of the list of skills in the system prompt."""
    max_skill_file_bytes: int = Field(default=256_000, ge=1_000, le=10_000_000)
    """Bytes of a SKILL.md; a larger file is refused."""


class SkillEntryConfig(OpenSection):
    """Settings of one skill, by its name or its `skillKey`."""

    enabled: bool | None = None
    """`false` disables the skill, `true` also enables a bundled one; when unset, a bundled skill
    needs `skills.allowBundled`."""


@with_sections("skills")
class SkillsConfig(OpenSection):
    """Folders with instructions for one kind of work, which a model reads when needed."""

    allow_bundled: tuple[SkillName, ...] = Field(default=(), max_length=1000)
    """Names of the bundled skills that are enabled; `*` enables all. The prompt lists each enabled
    skill, so none is enabled by default."""
    load: SkillLoadConfig = SkillLoadConfig.model_construct()
    limits: SkillLimitsConfig = SkillLimitsConfig.model_construct()
    entries: dict[str, SkillEntryConfig] = Field(default_factory=dict)
    """Settings of skills, by name or by `skillKey`."""
