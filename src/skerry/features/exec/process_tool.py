"""The tool `process`: reads, writes and ends background commands."""

from collections.abc import Callable
from typing import Any, Final, Literal

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field

from skerry.config.root import Config
from skerry.features.exec import terminal_keys
from skerry.features.exec.exec_settings import rules_of
from skerry.features.exec.input_gate import input_gate
from skerry.features.exec.process_session import CommandState, ProcessSession
from skerry.features.exec.registry import Registry
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.effect import ToolEffect
from skerry.policy.file_gate import FileGate
from skerry.ports.tool import Assessment, ToolContext

RESULT_CHARS: Final = 30_000
"""Maximum characters of output in a result; the middle of a longer output is left out."""
LOG_LINES: Final = 200
"""Lines of `log` where the call names no range."""
POLL_SECONDS: Final = 120.0
"""Longest wait of `poll`."""
KILL_SECONDS: Final = 5.0
"""Seconds that `kill` and `remove` wait for the end of a command."""
_INPUTS: Final = frozenset({"paste", "send-keys", "submit", "write"})
_ACTIONS: Final = "list poll log write send-keys submit paste kill clear remove"


class ProcessParams(BaseModel):
    """Parameters of `process`."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    action: Literal[
        "list", "poll", "log", "write", "send-keys", "submit", "paste", "kill", "clear", "remove"
    ]
    session_id: str = Field(default="", alias="sessionId", max_length=100)
    data: str = Field(default="", max_length=65_536)
    keys: tuple[str, ...] = Field(default=(), max_length=1000)
    hex: tuple[str, ...] = Field(default=(), max_length=10_000)
    literal: str = Field(default="", max_length=65_536)
    text: str = Field(default="", max_length=65_536)
    bracketed: bool = True
    eof: bool = False
    offset: int | None = Field(default=None, ge=0)
    limit: int | None = Field(default=None, ge=1, le=100_000)
    timeout: float = Field(default=0, ge=0)
    """Milliseconds that `poll` waits for output."""


_STRING: Final = {"type": "string"}
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "action": {"enum": _ACTIONS.split()},
        "sessionId": _STRING,
        "data": _STRING,
        "keys": {"type": "array", "items": _STRING},
        "hex": {"type": "array", "items": _STRING},
        "literal": _STRING,
        "text": _STRING,
        "bracketed": {"type": "boolean"},
        "eof": {"type": "boolean"},
        "offset": {"type": "integer"},
        "limit": {"type": "integer"},
        "timeout": {"type": "integer"},
    },
    "required": ["action"],
}
"""Schema of the parameters for the model, shorter than that of pydantic."""


def report(session: ProcessSession) -> dict[str, Any]:
    """Returns the details of a command for clients."""
    return {
        "status": str(session.status),
        "sessionId": session.id,
        "exitCode": session.exit_code,
        "pid": session.pid,
        "host": session.command.host,
        "cwd": session.command.cwd,
        "command": session.command.text[:2000],
        "startedAt": session.started_at,
        "durationMs": session.duration_ms,
        "tail": session.output.last(2000),
    }


def outcome(session: ProcessSession) -> ToolResult:
    """Returns the result of `exec`: the output and the end, or a note that it continues.

    Raises:
        ToolError: the command could not be started.
    """
    details = report(session)
    warning = f"{session.warning}\n\n" if session.warning else ""
    if session.status is CommandState.RUNNING:
        text = (
            f"{warning}Command still running (session {session.id}, pid {session.pid or 'n/a'})."
            " Use process (list/poll/log/write/send-keys/kill/clear/remove) for follow-up."
        )
        return ToolResult(text, details=details)
    if session.pid is None:
        raise ToolError(f"The command was not run: {session.reason}")
    text = warning + (session.output.brief(RESULT_CHARS).rstrip("\n") or "(no output)")
    if session.status is not CommandState.COMPLETED:
        return ToolResult(f"{text}\n\n({session.reason})", is_error=True, details=details)
    note = f"\n\n(Command exited with code {session.exit_code})" if session.exit_code else ""
    return ToolResult(f"{text}{note}", details=details)


class ProcessSessions:
    """Works with the background commands of the conversation."""

    verb = Verb.USE
    spec = ToolSpec("process", "Manage background exec sessions.", _SCHEMA)

    def __init__(self, registry: Registry, config: Callable[[], Config]) -> None:
        self._registry = registry
        self._config = config

    async def assess(self, arguments: dict[str, Any], context: ToolContext) -> Assessment:
        """Returns the decision on input, which may be a command for a shell."""
        params = ProcessParams.model_validate(arguments)
        caller = context.caller
        if params.action not in _INPUTS or caller is None:
            return Assessment(ToolEffect.ALLOW, "process")
        session = self._registry.find(params.session_id, caller.key)
        if session is None:
            return Assessment(ToolEffect.ALLOW, "process")  # no input to write to
        rules = rules_of(self._config(), caller.key.agent, host=session.command.host)
        return input_gate(session, rules, _input(params, session)[0], context.taint)

    async def source(self, arguments: dict[str, Any], context: ToolContext) -> Origin:
        """Returns the origin of the command's output, including the effect of input."""
        params, rules = ProcessParams.model_validate(arguments), context.workspace.rules
        words = Origin.TOOL
        if isinstance(rules, FileGate):
            words = await anyio.to_thread.run_sync(rules.output_origin, context.workspace.root)
        if context.caller is None or params.action == "list":
            return words  # the list only shows commands, which the run wrote itself
        session = self._registry.find(params.session_id, context.caller.key)
        if session is None:
            return words
        if session.words is Origin.LOCAL:
            session.words = words
        return session.words

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Performs the action and returns its outcome."""
        params = ProcessParams.model_validate(arguments)
        if context.caller is None:
            raise ToolError("The call has no conversation.")
        if params.action == "list":
            return self._list(context.caller)
        if not params.session_id:
            raise ToolError("sessionId is required for this action.")
        session = self._registry.find(params.session_id, context.caller.key)
        if session is None or not session.is_background:
            raise ToolError(f"No session found for {params.session_id}")
        text = await self._act(params, session)
        session.is_told = session.status is not CommandState.RUNNING
        return ToolResult(text, details=report(session))

    def _list(self, caller: Caller) -> ToolResult:
        sessions = self._registry.of(caller.key)
        lines = [
            f"{session.id} {_status(session):9} {session.duration_ms // 1000}s"
            f" :: {session.command.text[:120]}"
            for session in sessions
        ]
        text = "\n".join(lines) or "No running or recent sessions."
        return ToolResult(text, details={"sessions": [report(session) for session in sessions]})

    async def _act(self, params: ProcessParams, session: ProcessSession) -> str:
        match params.action:
            case "poll":
                return await _poll(session, min(params.timeout / 1000, POLL_SECONDS))
            case "log":
                return _log(session, params.offset, params.limit)
            case "kill":
                return await _kill(session)
            case "clear" | "remove":
                return await self._remove(session, params.action)
            case _:
                return await _write(params, session)

    async def _remove(self, session: ProcessSession, action: str) -> str:
        if session.status is CommandState.RUNNING:
            if action == "clear":
                raise ToolError(f"No finished session found for {session.id}")
            await _kill(session)
        self._registry.forget(session)
        return f"{'Cleared' if action == 'clear' else 'Removed'} session {session.id}."


def _status(session: ProcessSession) -> str:
    if session.status is CommandState.COMPLETED and session.exit_code:
        return "failed"
    return str(session.status)


async def _poll(session: ProcessSession, seconds: float) -> str:
    text = session.output.take_new()
    if not text and seconds:
        await session.wait_for_output(seconds)
        text = session.output.take_new()
    return f"{text.rstrip() or '(no new output)'}\n\n{session.ending}"


def _log(session: ProcessSession, offset: int | None, limit: int | None) -> str:
    lines = session.output.text.splitlines()
    if not lines:
        return (
            "(no output yet)" if session.status is CommandState.RUNNING else "(no output recorded)"
        )
    if offset is None and limit is None and len(lines) > LOG_LINES:
        note = f"[showing last {LOG_LINES} of {len(lines)} lines; pass offset/limit to page]"
        return "\n".join([*lines[-LOG_LINES:], "", note])[-RESULT_CHARS:]
    first = max(len(lines) - (limit or LOG_LINES), 0) if offset is None else offset
    return "\n".join(lines[first : first + (limit or LOG_LINES)])[:RESULT_CHARS]


async def _kill(session: ProcessSession) -> str:
    if session.status is not CommandState.RUNNING:
        raise ToolError(f"No active session found for {session.id}")
    session.kill()
    if await session.wait(KILL_SECONDS):
        return f"Killed session {session.id}."
    return f"Termination requested for session {session.id}."


async def _write(params: ProcessParams, session: ProcessSession) -> str:
    data, text = _input(params, session)
    if not session.is_writable or not await session.write(data):
        raise ToolError(
            f"Session {session.id} stdin is not writable. Start it with background or pty."
        )
    if params.eof:
        await session.close_input()
        return f"{text.removesuffix('.')} (stdin closed)."
    return text


def _input(params: ProcessParams, session: ProcessSession) -> tuple[bytes, str]:
    """Returns the bytes to write, and the result text. Raises `ToolError`."""
    name = session.id
    if params.action == "submit":
        return b"\r" if session.has_terminal else b"\n", f"Submitted session {name}."
    if params.action == "paste":
        if not params.text:
            raise ToolError("No paste text provided.")
        # Only terminals understand the marks of a paste.
        data = terminal_keys.pasted(
            params.text, bracketed=params.bracketed and session.has_terminal
        )
        return data, f"Pasted {len(params.text)} chars to session {name}."
    if params.action == "write":
        data = params.data.encode("utf-8", "replace")
        return data, f"Wrote {len(data)} bytes to session {name}."
    try:
        data = (
            params.literal.encode("utf-8", "replace")
            + terminal_keys.encoded(params.keys)
            + terminal_keys.from_hex(params.hex)
        )
    except ValueError as error:
        raise ToolError(f"Unknown key: {error}") from error
    if not data:
        raise ToolError("No key data provided.")
    return data, f"Sent {len(data)} bytes to session {name}."
