"""Uploads files of a Slack app: requests an address, uploads the bytes, shares the file."""

import hashlib
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec
from msgspec import Struct

from skerry.channels.slack.api import WebApi
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_files import read_file
from skerry.sdk.channels import (
    DeliveryDelayedError,
    OutboundMedia,
    OutboundPart,
    Receipt,
)

_MAX_NAME: Final = 80


class _UploadAddress(Struct, frozen=True):
    upload_url: str = ""
    file_id: str = ""


_upload_addresses = msgspec.json.Decoder(_UploadAddress)


def file_name(part: OutboundPart, media: OutboundMedia) -> str:
    """Returns the file name that identifies a part: a shared file has no metadata."""
    name = PurePath(media.name or Path(media.path).name)
    mark = hashlib.sha256(part.nonce.encode()).hexdigest()[:10]
    return f"{name.stem[:_MAX_NAME]}-{mark}{name.suffix[:16]}"


async def upload(api: WebApi, part: OutboundPart, media: OutboundMedia) -> dict[str, Any]:
    """Uploads the file of a part, which nobody sees yet; returns the parameters that share it.

    Raises:
        DeliveryDelayedError: nothing is shared; it is tried again.
        DeliveryRefusedError: the file is gone, or Slack refuses it.
        PlatformError: Slack refused a request.
    """
    file = await read_file(media)
    name = file_name(part, media)
    try:
        params = {"filename": name, "length": str(len(file.data))}
        address = _upload_addresses.decode(
            await api.call_form("files.getUploadURLExternal", params)
        )
        await api.put_file(address.upload_url, file.data, media.mime)
    except msgspec.DecodeError as error:
        raise DeliveryDelayedError(f"Slack gave no address for {name}: {error}") from None
    except PlatformError as error:
        if error.code and error.retry_after is None:
            raise
        raise DeliveryDelayedError(str(error), error.retry_after) from error
    shared: dict[str, Any] = {
        "files": [{"id": address.file_id, "title": media.name or name}],
        "channel_id": part.to.peer.id,
    }
    if part.to.thread_id:
        shared["thread_ts"] = part.to.thread_id
    return shared


def receipt(shared: dict[str, Any]) -> Receipt:
    """Returns the ids of the files that were shared; Slack does not name their message."""
    return Receipt(tuple(file["id"] for file in shared["files"]))
