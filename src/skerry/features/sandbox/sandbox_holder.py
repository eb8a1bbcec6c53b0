"""The sandboxes of an installation: chooses the backend, and prepares what a command gets."""

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

REMEDY: Final = "`skerry sandbox test` shows why; `skerry doctor` names the remedies."
AGAIN_SECONDS: Final = 60.0
"""After a failure the self-test is run again: to ask an engine takes a tenth of a second."""
_ACCESS: Final = ("none", "ro", "rw")
_NETWORK: Final = ("none", "proxy")
PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_BASE: Final = {"PATH": PATH, "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108


class Backend(Protocol):
    """A way to run a command apart from the machine."""

    @property
    def name(self) -> str:
        """Returns its name in the configuration."""
        ...

    @property
    def shares_network(self) -> bool:
        """Returns whether commands of one scope have one network, and its ports, together."""
        ...

    async def lacks(self, settings: SandboxConfig) -> str:
        """Returns the missing part, with the remedy; empty where it can be tried."""
        ...

    def running(self, prepare: Callable[[], SandboxCommand]) -> AbstractAsyncContextManager[Child]:
        """Runs a command for a block, whose end ends everything inside.

        `prepare` opens its mounts and returns it. It blocks: it is called in a thread.

        Raises:
            SandboxError: it cannot be prepared.
            NotStartedError: the program of the backend cannot be started.
        """
        ...


class Granted(Struct, frozen=True):
    """A spec with what the configuration says about it."""

    spec: SandboxSpec
    settings: SandboxConfig
    config: Config
    access: str
    network: str
    limits: Limits
    scope: str
    """Names the container and the folder that are shared."""


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
        self._known: dict[tuple[str, str, str | None], tuple[SelfTest, float]] = {}
        """Results of self-tests, and until when each counts."""
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
        """Returns whether commands of this session run inside."""
        return self._host.config().sandbox(agent).covers(SessionKey.parse(session, agent))

    async def usable(self, agent: AgentId | None = None) -> SelfTest:
        """Returns the self-test of the backend that is configured for the agent."""
        settings = self._host.config().sandbox(agent or MAIN_AGENT)
        return (await self._chosen(settings))[1]

    async def tested(self, name: str, settings: SandboxConfig) -> SelfTest:
        """Returns the self-test of a backend, run once, and a minute after a failure again."""
        backend = self._backends.get(name)
        if backend is None:
            return _unavailable(name, f"There is no backend {name} yet.")
        key = (name, settings.docker.image, settings.docker.apparmor_profile)
        async with self._turn:
            known = self._known.get(key)
            if known is not None and time.monotonic() < known[1]:
                return known[0]
            lacking = await backend.lacks(settings)
            result = _unavailable(name, lacking)
            if not lacking:
                result = await self._test(self, backend, settings)
            until = math.inf if result.usable else time.monotonic() + AGAIN_SECONDS
            self._known[key] = (result, until)
            return result

    @asynccontextmanager
    async def open(self, spec: SandboxSpec) -> AsyncGenerator[SandboxProcess]:
        """Runs a command inside for a block, whose end ends everything that it started."""
        granted = self.granted(spec)
        backend, test = await self._chosen(granted.settings)
        if backend is None:
            message = f"No sandbox can run the command: {test.remedy}"
            raise SandboxError(message, REMEDY)
        async with self.within(backend, granted) as process:
            yield process

    @asynccontextmanager
    async def within(self, backend: Backend, granted: Granted) -> AsyncGenerator[SandboxProcess]:
        """Runs a command in a backend that need not have passed its self-test."""
        spec = granted.spec
        made: list[Path] = []
        async with AsyncExitStack() as served:
            held = ExitStack()
            terminal = None
            if spec.pty:
                terminal = PseudoTerminal(spec.rows, spec.columns)
            try:
                join = await self._joined(backend, granted, served)
                proxies = {} if join is None or backend.shares_network else variables()
                environ = {**_BASE, **proxies, **_checked(spec.env)}

                def prepare() -> SandboxCommand:
                    mounts, opened = self._mounts(granted, held, made)
                    return SandboxCommand(
                        argv=spec.argv,
                        mounts=mounts,
                        environ=environ,
                        join=join,
                        alone=spec.session if join else "",
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
                    watched(child, _written(granted)),
                ):
                    yield RunningCommand(child, terminal)
            except NotStartedError as error:
                raise SandboxError(f"The sandbox cannot be started: {error}", REMEDY) from error
            finally:
                with anyio.CancelScope(shield=True):
                    if terminal is not None:
                        await terminal.aclose()
                    await to_thread.run_sync(self._closed, held, made)

    def _closed(self, held: ExitStack, made: list[Path]) -> None:
        """Closes the mounts and then removes placeholders, which takes longer in an open one."""
        try:
            held.close()
        finally:
            self._placeholders.release(made)

    async def _joined(
        self, backend: Backend, granted: Granted, served: AsyncExitStack
    ) -> Join | None:
        """Returns the function that opens the proxy's port; the stack serves it until its end."""
        if granted.network == "none":
            return None
        rules = granted.config.tools.web.fetch.ssrf_policy.rules
        spec, ask = granted.spec, self._host.ask
        asked = partial(ask, str(spec.agent), spec.session) if ask else None
        hosts = Hosts(granted.settings.allowed_hosts, rules, asked)
        port = 0 if backend.shares_network else PORT
        return await served.enter_async_context(proxied(hosts, self._host.environ, port))

    def granted(self, spec: SandboxSpec) -> Granted:
        """Returns a spec with the grants of the configuration.

        Raises:
            SandboxError: it asks for more.
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
        """Returns the first usable backend of those that are configured, and its self-test."""
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
        self, granted: Granted, held: ExitStack, made: list[Path]
    ) -> tuple[list[Mount], view.View]:
        """Returns all mounts, and the view of the workspace; open until the end of the stack.

        Placeholders are added to `made`.
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
                made += self._placeholders.hold(workspace, names)
            opened = view.opened(workspace, names, guard, spec.closed, writes=writes)
        held.callback(opened.close)
        bound = binds.opened(granted.settings.docker.binds, config, guard, self._host.environ)
        held.callback(binds.close, bound)
        return [*opened.mounts, *bound], opened


def _written(granted: Granted) -> Path:
    """Returns a folder on the disk that the command writes."""
    return granted.config.state_dir if granted.access == "none" else granted.spec.workspace


def _unavailable(name: str, why: str) -> SelfTest:
    """Returns the self-test of a backend that cannot run anything: its only check has failed."""
    check = SelfCheck("available", ok=False, detail=why)
    return SelfTest(name, usable=False, checks=(check,), remedy=why)


def _narrower(order: Sequence[str], wanted: str | None, granted: str, key: str) -> str:
    if wanted is None:
        return granted
    if order.index(wanted) > order.index(granted):
        message = f"{wanted!r} is more than sandbox.{key} grants, which is {granted!r}."
        raise SandboxError(message, f"Change agents.defaults.sandbox.{key} if it should be.")
    return wanted


def _scope(settings: SandboxConfig, spec: SandboxSpec) -> str:
    """Returns the name of what sessions share: letters, digits and `-`."""
    match settings.scope:
        case "shared":
            return "shared"
        case "agent":
            return f"agent-{spec.agent}"
        case _:
            digest = sha256(f"{spec.agent}\0{spec.session}".encode()).hexdigest()[:16]
            return f"session-{spec.agent}-{digest}"


def _checked(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the variables. Raises `SandboxError` where one cannot be handed over."""
    for name, value in environ.items():
        if not name or "=" in name or "\0" in name + value:
            message = f"The variable {name!r} cannot be handed to a command."
            raise SandboxError(message, "Leave it out, or correct its name.")
    return environ
