"""The tool `exec`: a command in the sandbox, or on this machine after the analysis of commands."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal

import anyio
import anyio.to_thread
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, StrictBool

from skerry.config.exec import Ask, Security
from skerry.features.exec.binding import binding
from skerry.features.exec.command_check import CommandDecision, check
from skerry.features.exec.exec_settings import host_of, node_of, rules_of
from skerry.features.exec.gateway_host import environment, on_gateway
from skerry.features.exec.node_host import MAX_SECONDS, ExecNode, NodeCommand, find, run_on
from skerry.features.exec.notice import Notices
from skerry.features.exec.process_session import ExecCommand, ProcessSession
from skerry.features.exec.process_tool import ProcessSessions, outcome, report
from skerry.features.exec.registry import Registry
from skerry.features.exec.sources import has_no_foreign_text, is_local, recorded
from skerry.infra.process import Program
from skerry.model.caller import Caller
from skerry.model.errors import SandboxError, ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.effect import ToolEffect
from skerry.policy.file_gate import FileGate
from skerry.policy.taint import foreign, guarded_act, reason
from skerry.ports.sandbox import WORKDIR, Sandbox, SandboxProcess, SandboxSpec
from skerry.ports.tool import ApprovalSubject, Assessment, Tool, ToolContext
from skerry.sdk.host_approvals import HostApprovals
from skerry.sdk.slots import SandboxHost, open_sandbox
from skerry.sdk.tool_host import ToolHost

SHELL: Final = ("/bin/bash", "--noprofile", "--norc", "-c")
INSIDE: Final = ("/bin/sh", "-c")
REPORT_SECONDS: Final = 0.25
"""Minimum seconds between two reports of output."""
START_SECONDS: Final = 10.0
"""Seconds for the start of a background command."""
_NAME: Final = r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"


class ExecParams(BaseModel):
    """Parameters of `exec`."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    command: str = Field(min_length=1, max_length=65_536)
    workdir: str | None = Field(default=None, max_length=4096, description="Below the workspace.")
    env: dict[str, str] | None = Field(default=None, max_length=64)
    timeout: float | None = Field(default=None, gt=0, le=86_400, description="Seconds.")
    yield_ms: int | None = Field(default=None, alias="yieldMs")
    background: bool = False
    pty: bool = False
    host: Literal["sandbox", "gateway", "node"] | None = None
    elevated: StrictBool = False
    security: Security | None = None
    ask: Ask | None = None

    @property
    def leaves_sandbox(self) -> bool:
        """Returns true when the call asks to run on this machine, whatever is configured."""
        return self.elevated or self.host == "gateway"

    @property
    def listens(self) -> bool:
        """Returns true when the command continues in the background, with writable input."""
        return self.background or self.yield_ms is not None


class Report:
    """Reports the output of a command while its call waits."""

    def __init__(self, session: ProcessSession, progress: Callable[[ToolResult], None]) -> None:
        self._session = session
        self._progress = progress
        self._at = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        session.on_output = self.output

    def output(self) -> None:
        """Reports the output so far, `REPORT_SECONDS` after the last report at the earliest."""
        if self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        due = self._at + REPORT_SECONDS
        if due <= loop.time():
            self._report()
        else:
            self._timer = loop.call_at(due, self._report)

    def end(self) -> None:
        """Stops the reports."""
        self._session.on_output = None
        if self._timer is not None:
            self._timer.cancel()

    def _report(self) -> None:
        self._timer, self._at = None, asyncio.get_running_loop().time()
        self._progress(ToolResult(self._session.output.brief(4000), details=report(self._session)))


class Exec:
    """Runs a command and returns its output. `assess` decides before."""

    verb = Verb.USE
    spec = ToolSpec("exec", "Run a shell command.", ExecParams.model_json_schema())

    def __init__(self, host: ToolHost, sandbox: Sandbox, registry: Registry) -> None:
        self._host = host
        self._sandbox = sandbox
        self._registry = registry

    async def assess(self, arguments: dict[str, Any], context: ToolContext) -> Assessment:
        """Returns the decision on a command; a command for this machine is analysed first."""
        params = ExecParams.model_validate(arguments)
        caller = _caller(context)
        host = self._host_of(params, caller)
        if params.host not in {None, host}:
            denial = f"commands of this agent run on the host {host}"
            return Assessment(ToolEffect.DENY, "exec-host", denial)
        if host != "sandbox" and params.env:
            return Assessment(ToolEffect.DENY, "exec-env", f"a command on the {host} takes no env")
        if host == "node" and (params.listens or params.pty):
            denial = "a node runs a command to its end, without a terminal"
            return Assessment(ToolEffect.DENY, "exec-node", denial)
        decision = await self._decision(params, context, host)
        if decision.decision is ToolEffect.DENY:
            return Assessment(ToolEffect.DENY, decision.rule, decision.reason)
        cwd, location = self._folder(params, context, host), host
        if host == "node":
            node = await self._node(caller)
            decision, location = at_node(decision, node), f"node:{node.id}"
        digest = await self._bound(params, decision, cwd, (location, caller))
        argv = decision.segments[0].argv if len(decision.segments) == 1 else None
        subject = ApprovalSubject(
            params.command, argv, host, str(cwd), tuple(sorted(params.env or ())), digest
        )
        patterns = decision.patterns if host == "gateway" else ()
        taint = foreign(context.taint)
        rule = guarded_act(self.spec.name, host=host) if taint else ""
        if rule and decision.decision is ToolEffect.ALLOW:
            # After a run has read untrusted text, a person must approve commands outside the
            # sandbox.
            return Assessment(ToolEffect.ASK, rule, reason(rule, taint), subject)
        return Assessment(decision.decision, decision.rule, decision.reason, subject, patterns)

    async def _bound(
        self, params: ExecParams, decision: CommandDecision, cwd: Path, about: tuple[str, Caller]
    ) -> bytes:
        """Returns the digest that an approval is bound to, without files of a node."""
        location, caller = about
        words = [word for part in decision.segments for word in (*part.argv, part.program or "")]
        if location.startswith("node:"):
            words = []
        facts = (location, caller.key.agent, str(caller.key))
        bound = partial(binding, params.command, words, cwd, params.env or {}, facts)
        return await anyio.to_thread.run_sync(bound) if words else bound()

    async def source(self, arguments: dict[str, Any], context: ToolContext) -> Origin:
        """Returns the origin of the output: anybody's with network access."""
        params = ExecParams.model_validate(arguments)
        caller = _caller(context)
        root = context.workspace.root
        host = self._host_of(params, caller)
        if host == "node":
            return Origin.WEB
        if host == "sandbox":
            local = is_local(self._host.config().sandbox(caller.key.agent))
        else:
            decision = await self._decision(params, context, "gateway")
            local = has_no_foreign_text(decision.segments, root, self._cwd(params, context))
        rules = context.workspace.rules
        if not local or not isinstance(rules, FileGate):
            return Origin.WEB
        if not rules.may_have_foreign_text():
            return Origin.LOCAL
        return await anyio.to_thread.run_sync(rules.output_origin, root)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Runs the command until it ends, or until the call stops waiting."""
        params = ExecParams.model_validate(arguments)
        if self._host_of(params, _caller(context)) == "node":
            return await self._on_node(params, context)
        session = await self._begin(params, context, arguments)
        report = Report(session, context.progress)
        try:
            await session.wait(self._yield_seconds(params))
            with anyio.move_on_after(START_SECONDS):
                await session.started.wait()
        except anyio.get_cancelled_exc_class():  # the run was aborted
            session.kill()
            self._registry.forget(session)
            raise
        finally:
            report.end()
        if session.done.is_set():
            self._registry.forget(session)
        else:
            session.is_background = True
        return outcome(session)

    async def _on_node(self, params: ExecParams, context: ToolContext) -> ToolResult:
        """Runs a command on the node that the decision names."""
        caller = _caller(context)
        node, folder = await self._node(caller), self._folder(params, context, "node")
        subject = context.assessment.subject if context.assessment else None
        if subject is not None:
            no_command = CommandDecision(ToolEffect.ALLOW, "", "")
            about = (f"node:{node.id}", caller)
            if subject.binding != await self._bound(params, no_command, folder, about):
                raise ToolError(f"The command was approved for another node than {node.name}.")
        limit = self._host.config().tools.exec.timeout_sec
        command = NodeCommand(
            params.command,
            caller.key.agent,
            str(caller.key),
            context.run_id,
            params.workdir,
            min(params.timeout or limit, limit, MAX_SECONDS),
            context.is_approved,
        )
        return await run_on(self._host.call, node, command)

    async def _node(self, caller: Caller) -> ExecNode:
        config = self._host.config()
        return await find(self._host.call, node_of(config, caller.key.agent))

    def _folder(self, params: ExecParams, context: ToolContext, host: str) -> Path:
        """Returns the working directory of the command; a folder on a node is not checked."""
        return Path(params.workdir or "") if host == "node" else self._cwd(params, context)

    async def _begin(
        self, params: ExecParams, context: ToolContext, arguments: dict[str, Any]
    ) -> ProcessSession:
        """Starts the command."""
        caller = _caller(context)
        host, limit = self._host_of(params, caller), self._host.config().tools.exec.timeout_sec
        cwd = self._cwd(params, context)
        if not context.is_approved:
            self._refuse_outside(params, caller)
        if host == "sandbox":
            opens = partial(self._inside, params, context, caller)
        else:
            await self._note(params, context)
            opens = partial(self._outside, params, cwd)
        words = await self.source(arguments, context)
        command = ExecCommand(
            params.command,
            host,
            str(cwd),
            partial(recorded, opens, context, words),
            min(params.timeout or limit, limit),
            listens=params.listens,
            pty=params.pty,
            is_tainted=bool(context.taint),
            request=context.request,
        )
        session = self._registry.begin(command, caller.key)
        session.words = words
        return session

    def _yield_seconds(self, params: ExecParams) -> float:
        """Returns the seconds for which the call waits for the end of its command."""
        if params.background:
            return 0.0
        yield_ms = params.yield_ms or self._host.config().tools.exec.background_ms
        return min(max(yield_ms, 10), 120_000) / 1000

    def _host_of(self, params: ExecParams, caller: Caller) -> str:
        """Returns the host of the command; without a sandbox for the session, this machine.

        A call that asks to leave the sandbox runs on this machine: the policy requires a person's
        approval (`tools.elevated`).
        """
        host = host_of(self._host.config(), caller.key.agent)
        if host == "sandbox" and (params.leaves_sandbox or not self._covers(caller)):
            return "gateway"
        return host

    def _refuse_outside(self, params: ExecParams, caller: Caller) -> None:
        """Raises `ToolError` when the command would leave the configured sandbox."""
        is_host = host_of(self._host.config(), caller.key.agent) == "sandbox"
        if params.leaves_sandbox and is_host and self._covers(caller):
            raise ToolError("The command needs an approval to run outside the sandbox.")

    def _covers(self, caller: Caller) -> bool:
        return self._sandbox.applies(caller.key.agent, str(caller.key))

    async def _decision(
        self, params: ExecParams, context: ToolContext, host: str
    ) -> CommandDecision:
        agent = _caller(context).key.agent
        patterns = await self._host.allowlist.patterns(agent) if host == "gateway" else ()
        rules = rules_of(
            self._host.config(),
            agent,
            host=host,
            security=params.security,
            ask=params.ask,
            patterns=patterns,
        )
        if host == "sandbox" and rules.security == "full" and rules.ask != "always":
            # The sandbox is the boundary, so the words of the command decide nothing.
            return CommandDecision(ToolEffect.ALLOW, "security-full", "the sandbox is the boundary")
        if host == "gateway":
            root = context.workspace.root.resolve()
            rules = replace(rules, cwd=self._cwd(params, context).resolve(), root=root)
        return await check(params.command, rules)

    async def _note(self, params: ExecParams, context: ToolContext) -> None:
        """Records the use of the patterns that a command on this machine matched."""
        decision = await self._decision(params, context, "gateway")
        if decision.used:
            path = next((part.program for part in decision.segments if part.program), "")
            agent = _caller(context).key.agent
            await self._host.allowlist.used(agent, decision.used, params.command, path)

    def _cwd(self, params: ExecParams, context: ToolContext) -> Path:
        root = context.workspace.root
        if params.workdir is None:
            return root
        inside = PurePosixPath(params.workdir)
        if inside.is_relative_to(WORKDIR):
            inside = inside.relative_to(WORKDIR)
        cwd = (root / inside).resolve()
        if not cwd.is_relative_to(root.resolve()) or not cwd.is_dir():
            raise ToolError(f"The workdir {params.workdir} is not a folder of the workspace.")
        return cwd

    def _inside(
        self,
        params: ExecParams,
        context: ToolContext,
        caller: Caller,
        terminal: bool,  # noqa: FBT001 - the signature of `ExecCommand.open`
    ) -> AbstractAsyncContextManager[SandboxProcess]:
        root = context.workspace.root
        cwd = WORKDIR / self._cwd(params, context).relative_to(
            root.resolve() if params.workdir else root
        )
        names = context.request.skills if context.request is not None else None
        spec = SandboxSpec(
            argv=(*INSIDE, params.command),
            workspace=root,
            agent=caller.key.agent,
            session=str(caller.key),
            is_tainted=bool(context.taint),
            env={**({"TERM": "xterm"} if terminal else {}), **(params.env or {})},
            cwd=cwd,
            listens=params.listens,
            pty=terminal,
            skills=self._host.skills(caller.key.agent).folders(names),
        )
        return self._sandbox.open(spec)

    def _outside(
        self,
        params: ExecParams,
        cwd: Path,
        terminal: bool,  # noqa: FBT001 - the signature of `ExecCommand.open`
    ) -> AbstractAsyncContextManager[SandboxProcess]:
        environ = environment(self._host.environ)
        if terminal:
            environ["TERM"] = "xterm"
        program = Program((*SHELL, params.command), environ, cwd, merges=True)
        return on_gateway(program, listens=params.listens, pty=terminal)


def at_node(decision: CommandDecision, node: ExecNode) -> CommandDecision:
    """Returns the decision with the name of the node in its reason, for the approver."""
    reason = f"{decision.reason}; it runs on the node {node.name}"
    return CommandDecision(decision.decision, decision.rule, reason, decision.segments)


def _caller(context: ToolContext) -> Caller:
    if context.caller is None:
        raise ToolError("The call has no conversation.")
    return context.caller


def make(host: ToolHost) -> Sequence[Tool]:
    """Returns `exec`, or nothing when the slot of the sandbox is empty."""
    try:
        sandbox = open_sandbox(SandboxHost(host.config, host.environ, HostApprovals(host.call)))
    except SandboxError:
        return ()
    registry = Registry(
        host.start, host.clock, lambda: host.config().tools.exec.cleanup_ms, Notices(host)
    )
    return (Exec(host, sandbox, registry), ProcessSessions(registry, host.config))
