"""Pictures that answers name, as the workspace has them, for clients that read a conversation."""

import base64
from functools import partial
from typing import Any, Final

import anyio.to_thread
import msgspec
from msgspec import Raw

from skerry.config.protected import gate
from skerry.gateway.method import Call
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.ids import AgentId
from skerry.model.inbound import AttachmentKind
from skerry.model.message import AssistantMessage
from skerry.model.undelivered import MediaError
from skerry.replies.shaping import file_placeholder, shaped
from skerry.runtime.media_out import read_file

MAX_PICTURES: Final = 10
"""Pictures of one answer to a request."""
MAX_PICTURE_BYTES: Final = 1_000_000
"""Bytes of one."""


def references(answer: AssistantMessage) -> list[str]:
    """Returns the files that an answer names."""
    files: list[str] = []

    def show(reference: str) -> str:
        files.append(reference)
        return file_placeholder(reference)

    shaped(answer.text, show)
    return files


async def add_pictures(
    call: Call, agent: AgentId, payload: dict[str, Any], files: dict[int, list[str]], max_bytes: int
) -> None:
    """Adds the pictures that messages name to them, the newest first.

    Args:
        call: Of a client that may read the conversation.
        agent: Agent in whose workspace the files are.
        payload: Answer with `messages`, each as JSON.
        files: Files by the index of the message that names them.
        max_bytes: Limit of all messages as JSON, in bytes.

    """
    config, approvals = call.context.config(), call.context.approvals
    workspace = RootedFolder(config.workspace(agent), gate(config, records=call.context.records))
    redact = approvals.redact if approvals else str
    lines: list[Raw] = payload["messages"]
    room, remaining = max_bytes - sum(len(bytes(line)) for line in lines), MAX_PICTURES
    for index, names in sorted(files.items(), reverse=True):  # the newest first
        blocks: list[dict[str, str]] = []
        for name in names[:remaining]:
            work = partial(read_file, workspace, name, MAX_PICTURE_BYTES, redact)
            try:
                file = await anyio.to_thread.run_sync(work)
            except MediaError:
                continue  # the text names it
            data = base64.b64encode(file.data).decode()
            if file.kind is AttachmentKind.IMAGE and len(data) <= room:
                room -= len(data)
                blocks.append({"type": "image", "data": data, "mimeType": file.mime})
        remaining -= len(blocks)
        if blocks:
            message: dict[str, Any] = msgspec.json.decode(lines[index])
            message["content"] = [*message["content"], *blocks]
            lines[index] = Raw(msgspec.json.encode(message))
