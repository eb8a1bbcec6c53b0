"""The sandboxes of an installation: chooses the backend, and prepares commands for it."""

import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
)
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

import anyio
from anyio import to_thread
from msgspec import Struct
from msgspec.structs import replace

from skerry.config.protected import protected
from skerry.config.root import Config
from skerry.config.sandbox import SandboxConfig, size
from skerry.features.sandbox import binds, view
from skerry.features.sandbox.command import RunningCommand, SandboxCommand
from skerry.features.sandbox.containers import Containers
from skerry.features.sandbox.disk import watched
from skerry.features.sandbox.sandbox_network import PORT, Hosts, Join, proxied, variables
from skerry.features.sandbox.stage import Mount
from skerry.infra.atomic import make_private
from skerry.infra.process import Child, NotStartedError
from skerry.infra.terminal import PseudoTerminal
from skerry.model.errors import SandboxError
from skerry.model.ids import MAIN_AGENT, AgentId, SessionKey
from skerry.ports.sandbox import Limits, SandboxProcess, SandboxSpec, SelfCheck, SelfTest
from skerry.sdk.slots import SandboxHost

REMEDY: Final = "Run `skerry sandbox test` for the cause, or `skerry doctor` for the remedies."
AGAIN_SECONDS: Final = 60.0
"""After a failure the self-test is repeated: the call of an engine takes a tenth of a second."""
_ACCESS: Final = ("none", "ro", "rw")
_NETWORK: Final = ("none", "proxy")
PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_BASE: Final = {"PATH": PATH, "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108


class Backend(Protocol):
    """Runs commands isolated from the machine."""

    @property
    def name(self) -> str:
        """Returns its name in the configuration."""
        ...

    @property
    def shares_network(self) -> bool:
        """Returns true when the commands of one scope share a network and its ports."""
        ...

    async def lacks(self, settings: SandboxConfig) -> str:
        """Returns the missing part, with the remedy, or an empty string."""
        ...

    def running(self, prepare: Callable[[], SandboxCommand]) -> AbstractAsyncContextManager[Child]:
        """Runs a command for a block; its end kills every process inside.

        `prepare` opens the mounts of the command and returns it. It blocks, so call it in a thread.

        Raises:
            SandboxError: the command cannot be prepared.
            NotStartedError: the program of the backend cannot be started.
        """
        ...


class Granted(Struct, frozen=True):
    """A spec with the grants of the configuration."""

    spec: SandboxSpec
    settings: SandboxConfig
    config: Config
    access: str
    network: str
    limits: Limits
    scope: str
    """Name of the shared container and folder."""


class Sandboxes:
    """Implements `ports.sandbox.Sandbox`."""

    def __init__(
        self,
        host: SandboxHost,
        backends: Sequence[Backend],
        test: Callable[["Sandboxes", Backend, SandboxConfig], Awaitable[SelfTest]],
    ) -> None:
        self._host = host
        self._backends = {backend.name: backend for backend in backends}
        self._test = test
        self._results: dict[tuple[str, str, str | None], tuple[SelfTest, float]] = {}
        """Results of self-tests, each with the monotonic time of its expiry."""
        self._turn = anyio.Lock()
        self._placeholders = view.Placeholders()

    @property
    def names(self) -> tuple[str, ...]:
        """Returns the backends in the order in which `auto` tries them."""
        return tuple(self._backends)

    @property
    def containers(self) -> tuple[Containers, ...]:
        """Returns the backends that keep containers."""
        backends = self._backends.values()
        return tuple(backend for backend in backends if isinstance(backend, Containers))

    def applies(self, agent: AgentId, session: str) -> bool:
        """Returns true when commands of this session run in a sandbox."""
        return self._host.config().sandbox(agent).covers(SessionKey.parse(session, agent))

    async def usable(self, agent: AgentId | None = None) -> SelfTest:
        """Returns the self-test of the backend that is configured for the agent."""
        settings = self._host.config().sandbox(agent or MAIN_AGENT)
        return (await self._chosen(settings))[1]

    async def tested(self, name: str, settings: SandboxConfig) -> SelfTest:
        """Returns the self-test of a backend: run once, after a failure again after a minute."""
        backend = self._backends.get(name)
        if backend is None:
            return _unavailable(name, f"Unknown backend {name!r}.")
        key = (name, settings.docker.image, settings.docker.apparmor_profile)
        async with self._turn:
            cached = self._results.get(key)
            if cached is not None and time.monotonic() < cached[1]:
                return cached[0]
            lacking = await backend.lacks(settings)
            result = _unavailable(name, lacking)
            if not lacking:
                result = await self._test(self, backend, settings)
            until = math.inf if result.usable else time.monotonic() + AGAIN_SECONDS
            self._results[key] = (result, until)
            return result

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[SandboxProcess]:
        """Runs a command in a sandbox for a block; its end kills every process of the command."""
        granted = self.granted(spec)
        backend, test = await self._chosen(granted.settings)
        if backend is None:
            message = f"No sandbox can run the command: {test.remedy}"
            raise SandboxError(message, REMEDY)
        async with self.within(backend, granted) as process:
            yield process

    @asynccontextmanager
    async def within(self, backend: Backend, granted: Granted) -> AsyncGenerator[SandboxProcess]:
        """Runs a command in a backend without a check of its self-test."""
        spec = granted.spec
        placeholders: list[Path] = []
        async with AsyncExitStack() as served:
            mounted = ExitStack()
            terminal = None
            if spec.pty:
                terminal = PseudoTerminal(spec.rows, spec.columns)
            try:
                join = await self._joined(backend, granted, served)
                proxies = {} if join is None or backend.shares_network else variables()
                environ = {**_BASE, **proxies, **_checked(spec.env)}

                def prepare() -> SandboxCommand:
                    mounts, opened = self._mounts(granted, mounted, placeholders)
                    return SandboxCommand(
                        argv=spec.argv,
                        mounts=mounts,
                        environ=environ,
                        join=join,
                        exclusive_session=spec.session if join else "",
                        limits=granted.limits,
                        cwd=spec.cwd,
                        hidden=opened.hidden,
                        covered=opened.covered,
                        scope=granted.scope,
                        settings=granted.settings,
                        listens=spec.listens and not spec.pty,
                        terminal=terminal,
                    )

                async with (
                    backend.running(prepare) as child,
                    watched(child, _writable_folder(granted)),
                ):
                    yield RunningCommand(child, terminal)
            except NotStartedError as error:
                raise SandboxError(f"The sandbox cannot be started: {error}", REMEDY) from error
            finally:
                with anyio.CancelScope(shield=True):
                    if terminal is not None:
                        await terminal.aclose()
                    await to_thread.run_sync(self._closed, mounted, placeholders)

    def _closed(self, mounted: ExitStack, placeholders: list[Path]) -> None:
        """Closes the mounts, then removes the placeholders: faster than below an open mount."""
        try:
            mounted.close()
        finally:
            self._placeholders.release(placeholders)

    async def _joined(
        self, backend: Backend, granted: Granted, served: AsyncExitStack
    ) -> Join | None:
        """Returns the function that opens the proxy's port; the proxy ends with the stack."""
        if granted.network == "none":
            return None
        rules = granted.config.tools.web.fetch.ssrf_policy.rules
        spec, ask = granted.spec, self._host.ask
        ask_person = partial(ask, str(spec.agent), spec.session) if ask else None
        hosts = Hosts(granted.settings.allowed_hosts, rules, ask_person)
        port = 0 if backend.shares_network else PORT
        return await served.enter_async_context(proxied(hosts, self._host.environ, port))

    def granted(self, spec: SandboxSpec) -> Granted:
        """Returns a spec with the grants of the configuration.

        Raises:
            SandboxError: the spec requests more.
        """
        config = self._host.config()
        settings = config.sandbox(spec.agent)
        docker = settings.docker
        access = _narrower(_ACCESS, spec.access, settings.workspace_access, "workspaceAccess")
        network = _narrower(_NETWORK, spec.network, docker.network, "docker.network")
        limits = spec.limits or Limits(
            memory_bytes=size(docker.memory), processes=docker.pids_limit, cpus=docker.cpus
        )
        scope = _scope(settings, spec)
        return Granted(spec, settings, config, access, network, limits, scope)

    async def _chosen(self, settings: SandboxConfig) -> tuple[Backend | None, SelfTest]:
        """Returns the first usable configured backend, and its self-test."""
        names = self.names if settings.backend == "auto" else (settings.backend,)
        reasons: list[str] = []
        failed: list[SelfCheck] = []
        for name in names:
            result = await self.tested(name, settings)
            if result.usable:
                return self._backends[name], result
            reasons.append(f"{name}: {result.remedy}")
            failed += [
                replace(check, id=f"{name}-{check.id}") for check in result.checks if not check.ok
            ]
        return None, SelfTest("none", usable=False, checks=tuple(failed), remedy=" ".join(reasons))

    def _mounts(
        self, granted: Granted, mounted: ExitStack, placeholders: list[Path]
    ) -> tuple[list[Mount], view.View]:
        """Returns all mounts, and the view of the workspace; all open until the end of the stack.

        New placeholders are added to `placeholders`.
        """
        config, spec = granted.config, granted.spec
        guard = protected(config)
        if granted.access == "none":
            workspace = config.state_dir.resolve() / "sandboxes" / granted.scope
            make_private(workspace)
            opened = view.opened(workspace, view.HiddenNames(()), None)
        else:
            workspace = spec.workspace.resolve()
            names = view.closed_names(is_tainted=spec.is_tainted)
            writes = granted.access == "rw"
            if writes:
                placeholders += self._placeholders.hold(workspace, names)
            opened = view.opened(workspace, names, guard, spec.closed, writes=writes)
        mounted.callback(opened.close)
        bound = binds.opened(granted.settings.docker.binds, config, guard, self._host.environ)
        mounted.callback(binds.close, bound)
        skills = binds.opened_skills(spec.skills, guard)
        mounted.callback(binds.close, skills)
        return [*opened.mounts, *bound, *skills], opened


def _writable_folder(granted: Granted) -> Path:
    """Returns a folder on the disk to which the command writes."""
    return granted.config.state_dir if granted.access == "none" else granted.spec.workspace


def _unavailable(name: str, reason: str) -> SelfTest:
    """Returns the self-test of an unavailable backend: a single failed check."""
    check = SelfCheck("available", ok=False, detail=reason)
    return SelfTest(name, usable=False, checks=(check,), remedy=reason)


def _narrower(order: Sequence[str], requested: str | None, granted: str, key: str) -> str:
    if requested is None:
        return granted
    if order.index(requested) > order.index(granted):
        message = f"{requested!r} is more than sandbox.{key} grants, which is {granted!r}."
        raise SandboxError(message, f"Change agents.defaults.sandbox.{key} to grant it.")
    return requested


def _scope(settings: SandboxConfig, spec: SandboxSpec) -> str:
    """Returns the name of a scope: letters, digits and `-`."""
    match settings.scope:
        case "shared":
            return "shared"
        case "agent":
            return f"agent-{spec.agent}"
        case _:
            digest = sha256(f"{spec.agent}\0{spec.session}".encode()).hexdigest()[:16]
            return f"session-{spec.agent}-{digest}"


def _checked(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the variables. Raises `SandboxError` for a name or value that cannot be passed."""
    for name, value in environ.items():
        if not name or "=" in name or "\0" in name + value:
            message = f"The variable {name!r} cannot be passed to a command."
            raise SandboxError(message, "Remove it, or correct its name.")
    return environ
