"""Section `agents.defaults.sandbox`: the sandbox of an agent's commands, and its limits."""

import re
from typing import Annotated, Final, Literal

from pydantic import Field, field_validator

from skerry.config.base import Section
from skerry.model.ids import SessionKey
from skerry.policy.binds import BindError, parsed
from skerry.policy.network import is_host_pattern

_SIZE: Final = re.compile(r"(\d{1,9})([bkmgBKMG]?)")
_UNITS: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_MIN_MEMORY: Final = 16 << 20


def size(text: str) -> int:
    """Returns the bytes of a size such as `512m`; 0 if it is not a size."""
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _UNITS[match[2].lower()] if match else 0


class SandboxLimits(Section):
    """Limits of each sandbox, for every backend; the key names are those of containers."""

    image: str = Field(default="skerry-sandbox:latest", min_length=1, max_length=255)
    """Image of containers. It must be on this machine: images are never pulled."""
    memory: str = "4g"
    """Memory limit, such as `512m`: of all processes together in containers, and of the address
    space of each process in bubblewrap."""
    pids_limit: int = Field(default=256, ge=8, le=32_768)
    """Processes and threads at the same time."""
    cpus: float | None = Field(default=None, gt=0, le=1024, allow_inf_nan=False)
    """Processors used at the same time. Only containers support this limit."""
    network: Literal["none", "proxy"] = "none"
    """`none`, or `proxy`: allowed hosts through a proxy of the gateway. The network of the machine
    or of another container is never shared."""
    binds: tuple[Annotated[str, Field(max_length=4096)], ...] = Field(default=(), max_length=50)
    """Folders of this machine as `/source:/target[:ro|rw]`, read-only without a mode. The resolved
    source is checked again whenever a command starts."""

    apparmor_profile: str | None = Field(
        default=None, max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:@/-]*$"
    )
    """AppArmor profile for containers; it must be loaded. When unset, the default profile of the
    engine on machines with AppArmor; when set, AppArmor is required."""

    @field_validator("apparmor_profile")
    @classmethod
    def _confines(cls, value: str | None) -> str | None:
        if value is not None and value.rpartition(":")[2].casefold() == "unconfined":
            raise ValueError("unconfined is not allowed; remove the key for the engine's profile")
        return value

    @field_validator("memory")
    @classmethod
    def _is_size(cls, value: str) -> str:
        if size(value) < _MIN_MEMORY:
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
    """Sessions whose commands run in the sandbox: `all`, `non-main` (all but the main session), or
    `off` (none; their commands run on this machine under the rules of `tools.exec`)."""
    scope: Literal["session", "agent", "shared"] = "agent"
    """Sessions that share a container, and the folder that replaces the workspace with
    `workspaceAccess: "none"`."""
    workspace_access: Literal["none", "ro", "rw"] = "rw"
    """Access to the agent's workspace, which is `/workspace` inside: `rw` reads and writes, `ro`
    reads, `none` replaces it by a separate empty folder."""
    backend: Literal["auto", "docker", "podman", "bubblewrap"] = "auto"
    """`auto` is the first backend that passes its self-test: docker and podman if they have the
    image, then bubblewrap. Without a usable backend no command runs."""
    allowed_hosts: tuple[Annotated[str, Field(max_length=253)], ...] = Field(
        default=(), max_length=1000
    )
    """Hosts that commands can reach with the network `proxy`, such as `pypi.org`; `*.example.com`
    is every subdomain."""
    docker: SandboxLimits = SandboxLimits.model_construct()
    """Limits of a sandbox, for every backend."""

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
                raise ValueError(f"{text!r} is not a host: write example.com or *.example.com")
        return value
