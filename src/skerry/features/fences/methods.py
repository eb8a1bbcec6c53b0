"""The methods `files.list`, `get` and `trust`: files that a prompt includes as data only."""

from pathlib import Path
from typing import Annotated, Final

import anyio.to_thread
from pydantic import Field

from skerry.config.protected import gate
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.infra.rooted_fs import EscapeError
from skerry.policy.file_kinds import FileKind
from skerry.store import file_records
from skerry.workspace.fences import JudgedFile, fenced, look

_REFUSED: Final = {
    FileKind.UNVERIFIED: "its notes are confirmed individually: skerry memory confirm ID",
    FileKind.LOADED: "it is loaded as code or instructions, without a fence",
}


class FencesParams(Params):
    """Parameters of `files.list`."""

    agent_id: Name | None = None


class FenceParams(FencesParams):
    """Parameters of `files.get`; the path is relative to the workspace."""

    path: Name


class TrustParams(FenceParams):
    """Parameters of `files.trust`; `hash` is the SHA-256 of the content that was read."""

    hash: Annotated[str, Field(max_length=64, pattern=r"^[a-f0-9]{64}$")]


async def fences_list(call: Call, params: FencesParams) -> Json:
    """Returns the files that a prompt includes as data only, with their writers and times."""
    context, agent = call.context, call.agent(params.agent_id)
    config = context.config()
    root, rules = config.workspace(agent), gate(config)
    fenced_files = await anyio.to_thread.run_sync(
        lambda: list(fenced(root, rules, context.records))
    )
    return {
        "agentId": agent,
        "workspace": str(root),
        "files": [await _row(call, file) for file in fenced_files],
    }


async def fences_get(call: Call, params: FenceParams) -> Json:
    """Returns a file with its content, its trust, and the reason for distrust."""
    root, file = await _judged_file(call, params)
    text = file.data.decode("utf-8", "replace")
    return {"workspace": str(root), "file": await _row(call, file) | {"content": text}}


async def fences_trust(call: Call, params: TrustParams) -> Json:
    """Trusts the content of a file, if it has not changed since it was read."""
    root, file = await _judged_file(call, params)
    if file.digest.hex() != params.hash:
        raise RefusedError(
            f"{file.name} changed since it was read", "Read it again, then trust it."
        )
    if (reason := _REFUSED.get(file.kind)) is not None:
        raise RefusedError(f"{file.name} cannot be trusted: {reason}")
    if file.is_foreign:
        remedy = f"Change its owner on the machine of the gateway: chown $USER {file.path}"
        raise RefusedError(f"{file.name} belongs to another user of this machine", remedy)
    call.context.records.trust(file.path, file.digest, len(file.data))
    return {"workspace": str(root), "file": await _row(call, (await _judged_file(call, params))[1])}


async def _judged_file(call: Call, params: FenceParams) -> tuple[Path, JudgedFile]:
    context, agent = call.context, call.agent(params.agent_id)
    config = context.config()
    root, rules = config.workspace(agent), gate(config)
    try:
        file = await anyio.to_thread.run_sync(look, root, params.path, rules, context.records)
    except EscapeError as error:
        raise RefusedError(f"{params.path} cannot be shown: {error.reason}") from None
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        remedy = f"Pass a file below {root}. List the fenced files: skerry files list"
        raise RefusedError(f"{params.path} cannot be read: {reason}", remedy) from None
    return root, file


async def _row(call: Call, file: JudgedFile) -> dict[str, Json]:
    record = call.context.records.of(file.path)
    at = await call.context.store.read(lambda reader: file_records.written_at(reader, file.path))
    return {
        "path": file.name,
        "kind": file.kind.value,
        "size": len(file.data),
        "hash": file.digest.hex(),
        "trusted": not file.doubt,
        "reason": file.doubt or None,
        "origins": [*sorted(file.taint)],
        "writer": record.writer if record else None,
        "recordedAt": at,
    }


METHODS: Final = (
    Method("files.list", FencesParams, fences_list),
    Method("files.get", FenceParams, fences_get),
    Method("files.trust", TrustParams, fences_trust),
)
