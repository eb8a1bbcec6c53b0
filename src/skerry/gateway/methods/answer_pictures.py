"""Adds the pictures that answers reference to the messages that a client reads."""

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
"""Maximum number of pictures in one response."""
MAX_PICTURE_BYTES: Final = 1_000_000
"""Maximum size of one picture in bytes."""


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
    """Adds to each message the pictures that it references, the newest message first.

    Args:
        call: Request of a client that may read the conversation.
        agent: Agent whose workspace contains the files.
        payload: Response whose `messages` are changed, each as JSON.
        files: References to files, by the index of their message.
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
                continue  # the text still has the name of the file
            data = base64.b64encode(file.data).decode()
            if file.kind is AttachmentKind.IMAGE and len(data) <= room:
                room -= len(data)
                blocks.append({"type": "image", "data": data, "mimeType": file.mime})
        remaining -= len(blocks)
        if blocks:
            message: dict[str, Any] = msgspec.json.decode(lines[index])
            message["content"] = [*message["content"], *blocks]
            lines[index] = Raw(msgspec.json.encode(message))
