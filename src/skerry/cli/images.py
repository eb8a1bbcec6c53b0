"""Images from files, as attachments of a message."""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from skerry.model.errors import ClientError

MAX_BYTES: Final = 6_291_456
"""Limit of the gateway for one image, in bytes."""


def attachments(files: Sequence[str]) -> list[dict[str, str]]:
    """Returns the files as `attachments` of `agent` and `chat.send`.

    Raises:
        ClientError: a file is too large.
        OSError: a file cannot be read.
    """
    return [_attachment(Path(name).expanduser()) for name in files]


def _attachment(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ClientError(
            f"{path} has more than {MAX_BYTES // 1024**2} MiB.", "Make the image smaller."
        )
    content = base64.b64encode(data).decode()
    return {"type": "image", "fileName": path.name, "content": content}
