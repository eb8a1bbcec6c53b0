"""Methods for the workspace files that an agent's prompt reads: list, get, set."""

import hashlib
import os
from typing import Annotated, Final

import anyio.to_thread
from pydantic import Field

from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.infra.rooted_fs import EscapeError, RootedFolder
from skerry.model.ids import AgentId
from skerry.policy.file_records import FileRecords
from skerry.workspace.prompt_files import BOOT, ORDER

MAX_BYTES: Final = 2 * 1024 * 1024
NAMES: Final = (*ORDER, BOOT)


class FilesListParams(Params):
    """Parameters of `agents.files.list`."""

    agent_id: Name


class FilesGetParams(FilesListParams):
    """Parameters of `agents.files.get`."""

    name: Name


class FilesSetParams(FilesGetParams):
    """Parameters of `agents.files.set`; `expectedHash` is the SHA-256 of the read content."""

    content: Annotated[str, Field(max_length=MAX_BYTES)]
    expected_hash: Annotated[str, Field(max_length=64, pattern=r"^[a-fA-F0-9]{64}$")] | None = None


async def files_list(call: Call, params: FilesListParams) -> Json:
    """Returns the files that an agent's prompt reads, each with its existence."""
    config, agent = call.context.config(), call.agent(params.agent_id)
    rows = await anyio.to_thread.run_sync(lambda: [_row(config, agent, name) for name in NAMES])
    return {"agentId": agent, "workspace": str(config.workspace(agent)), "files": rows}


async def files_get(call: Call, params: FilesGetParams) -> Json:
    """Returns one of these files with its content."""
    config, agent = call.context.config(), call.agent(params.agent_id)
    _check_name(params.name)
    row = await anyio.to_thread.run_sync(lambda: _row(config, agent, params.name, whole=True))
    return {"agentId": agent, "workspace": str(config.workspace(agent)), "file": row}


async def files_set(call: Call, params: FilesSetParams) -> Json:
    """Replaces one of these files, unless it has changed since it was read."""
    config, agent = call.context.config(), call.agent(params.agent_id)
    _check_name(params.name)
    records = call.context.records
    row = await anyio.to_thread.run_sync(lambda: _write(config, agent, params, records))
    return {"ok": True, "agentId": agent, "workspace": str(config.workspace(agent)), "file": row}


def _check_name(name: str) -> None:
    if name not in NAMES:
        raise RefusedError(f'unsupported file "{name}"', f"The files are {', '.join(NAMES)}.")


def _row(config: Config, agent: AgentId, name: str, *, whole: bool = False) -> Json:
    root = config.workspace(agent)
    row: dict[str, Json] = {"name": name, "path": str(root / name), "missing": True}
    try:
        with RootedFolder(root, gate(config)).open(name) as file:
            status = os.fstat(file.fileno())
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return row
    except (EscapeError, OSError) as error:
        if whole:
            raise _refused("read", name, error) from None
        return row
    row |= {"missing": False, "size": status.st_size, "updatedAtMs": status.st_mtime_ns // 10**6}
    if status.st_size <= MAX_BYTES:
        row["hash"] = hashlib.sha256(data).hexdigest()
    if whole:
        row["content"] = _text(data, name)
    return row


def _text(data: bytes, name: str) -> str:
    problem = f"the file has more than {MAX_BYTES} bytes" if len(data) > MAX_BYTES else ""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        problem, text = problem or "the file is not UTF-8", ""
    if problem:
        raise RefusedError(
            f"{name} cannot be shown: {problem}.", "Edit it on the machine of the gateway."
        )
    return text


def _write(config: Config, agent: AgentId, params: FilesSetParams, records: FileRecords) -> Json:
    data, expected = params.content.encode(), (params.expected_hash or "").lower()

    def change(old: bytes | None) -> bytes:
        if expected and (old is None or hashlib.sha256(old).hexdigest() != expected):
            raise RefusedError(
                f"{params.name} changed since it was read; nothing was written",
                "Read it again, then write.",
                details={"code": "file.changed"},
            )
        return data

    if len(data) > MAX_BYTES:
        raise RefusedError(f"{params.name} would have more than {MAX_BYTES} bytes")
    root = config.workspace(agent)
    try:
        rules = gate(
            config, records=records
        )  # only admins may call this, so the file counts as the owner's
        RootedFolder(root, rules).replace(params.name, change, max_bytes=MAX_BYTES, whole=True)
    except (EscapeError, OSError) as error:
        raise _refused("written", params.name, error) from None
    return _row(config, agent, params.name, whole=True)


def _refused(verb: str, name: str, error: Exception) -> RefusedError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return RefusedError(f"{name} cannot be {verb}: {reason}")


METHODS: Final = (
    Method("agents.files.list", FilesListParams, files_list),
    Method("agents.files.get", FilesGetParams, files_get),
    Method("agents.files.set", FilesSetParams, files_set),
)
