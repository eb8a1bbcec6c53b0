"""Section `agents.defaults.sandbox`: where the commands of an agent run, and what they reach."""

import re
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from skerry.config.base import Section
from skerry.model.ids import SessionKey
from skerry.policy.binds import BindError, parsed
from skerry.policy.network import is_host_pattern

_SIZE: Final = re.compile(r"(\d{1,9})([bkmgBKMG]?)")
_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_LEAST_MEMORY: Final = 16 << 20


def size(text: str) -> int:
    """Returns the bytes of a size such as `512m`; 0 where it is none."""
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _UNITS[match[2].lower()] if match else 0


class SandboxLimits(Section):
    """Limits of each sandbox, whatever its backend is; the names are those of containers."""

    image: str = Field(default="skerry-sandbox:latest", min_length=1, max_length=255)
    """Image of containers. It must be on this machine: nothing is fetched."""
    memory: str = "4g"
    """Memory, such as `512m`. Containers count that of all processes; bubblewrap limits the address
    space of each."""
    pids_limit: int = Field(default=256, ge=8, le=32_768)
    """Processes and threads at the same time."""
    cpus: float | None = Field(default=None, gt=0, le=1024, allow_inf_nan=False)
    """Processors used at the same time. Containers alone can limit that."""
    network: Literal["none", "proxy"] = "none"
    """`none`, or `proxy`: allowed hosts through the gateway's guarded connections. The network of
    the machine or of another container is never shared."""
    binds: tuple[Annotated[str, Field(max_length=4096)], ...] = Field(default=(), max_length=50)
    """Folders of this machine as `/source:/target[:ro|rw]`, read-only without a mode. Where the
    source leads is checked again whenever a command starts."""

    apparmor_profile: str | None = Field(
        default=None, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]*$"
    )
    """Profile of AppArmor for containers, which must be loaded. Unset, it is that of the engine,
    where this machine has AppArmor; one that is named is needed."""

    @field_validator("apparmor_profile")
    @classmethod
    def _confines(cls, value: str | None) -> str | None:
        if value is not None and value.rpartition(":")[2].casefold() == "unconfined":
            raise ValueError("unconfined is no profile: leave it out for that of the engine")
        return value

    @field_validator("memory")
    @classmethod
    def _is_size(cls, value: str) -> str:
        if size(value) < _LEAST_MEMORY:
            message = f"{value!r} is not a size of at least 16m, such as 512m or 4g"
            raise ValueError(message)
        return value

    @field_validator("binds")
    @classmethod
    def _may_be_given(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        targets: set[str] = set()
        for text in value:
            try:
                target = str(parsed(text).target)
            except BindError as error:
                raise ValueError(str(error)) from error
            if target in targets:
                message = f"{target} is the target of two binds"
                raise ValueError(message)
            targets.add(target)
        return value


class SandboxConfig(Section):
    """Sandbox of an agent's commands."""

    mode: Literal["off", "non-main", "all"] = "all"
    """Sessions whose commands run in it: `all`, `non-main` (all but the main session), or `off`:
    none, then they run on this machine under the rules of `tools.exec`."""
    scope: Literal["session", "agent", "shared"] = "agent"
    """Sessions that share a container, and the folder that takes the place of the workspace under
    `workspaceAccess: "none"`."""
    workspace_access: Literal["none", "ro", "rw"] = "rw"
    """Use of the agent's workspace, which is `/workspace` inside: `rw` reads and writes, `ro`
    reads, `none` has an empty folder of its own instead."""
    backend: Literal["auto", "docker", "podman", "bubblewrap"] = "auto"
    """`auto` is the first that passes its self-test: docker and podman where they have the image,
    then bubblewrap. Without any no command runs."""
    allowed_hosts: tuple[Annotated[str, Field(max_length=253)], ...] = Field(
        default=(), max_length=1000
    )
    """Names that commands reach with the network `proxy`, such as `pypi.org`; `*.example.com` is
    each name below."""
    docker: SandboxLimits = SandboxLimits.model_construct()
    """Limits; they hold for each backend."""

    def covers(self, key: SessionKey) -> bool:
        """Returns whether commands of this session run inside."""
        if self.mode == "non-main":
            return key != SessionKey.main(key.agent)
        return self.mode == "all"

    @field_validator("allowed_hosts")
    @classmethod
    def _are_names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            if not is_host_pattern(text):
                raise ValueError(f"{text!r} is not a name: write example.com or *.example.com")
        return value
