"""Fetches the files of an admitted message: images for the model, other files into a folder.

Names and types are chosen by the sender and not trusted: the first bytes decide if a file is an
image, and a name is cleaned before it is shown or used.
"""

import base64
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from skerry.config.root import Config
from skerry.infra.atomic import make_private, write_atomic
from skerry.infra.clock import Clock
from skerry.model.errors import ModelUnavailableError
from skerry.model.inbound import Attachment, AttachmentKind, InboundMessage, well_formed
from skerry.model.message import ImageBlock
from skerry.model.run import RunRequest
from skerry.model.undelivered import MediaError
from skerry.ports.channel import ChannelAdapter, Fetches
from skerry.ports.model_candidates import CallTarget
from skerry.runtime.run_context import MEDIA, Runtime

logger = logging.getLogger(__name__)

MAX_FILES: Final = 10
"""Limit on the files of a message that are fetched."""
MAX_BYTES: Final = 20_000_000
"""Limit on one file, in bytes."""
MAX_IMAGE_BYTES: Final = 6_291_456
"""Limit on an image for a model, in bytes; a larger one is stored as a file."""
MAX_TOTAL_BYTES: Final = 40_000_000
"""Limit on all files of a message, in bytes."""
FETCH_SECONDS: Final = 45.0
LASTS_MS: Final = 7 * 86_400_000
"""Milliseconds for which a file is kept."""
INBOUND: Final = "inbound"
_SIGNATURES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_MAX_NAME: Final = 64
_ODD: Final = re.compile(r"[^\w.-]+")


Transcribe = Callable[[bytes, str, str], Awaitable[str]]
"""Function that returns the text of a recording, given its bytes, name and type."""
NOT_TRANSCRIBED: Final = "It is not transcribed: no transcription provider is configured"


class Files(Struct, frozen=True):
    """Files of a message, for the model."""

    images: tuple[ImageBlock, ...] = ()
    notes: tuple[str, ...] = ()
    """One line about each file."""


class MediaFolder(Struct, frozen=True):
    """Fetches the files of messages and stores them in a folder."""

    folder: Path
    clock: Clock

    async def receive(
        self,
        adapter: ChannelAdapter | None,
        attachments: Sequence[Attachment],
        *,
        reads_images: bool,
        transcribe: Transcribe | None = None,
    ) -> Files:
        """Fetches the files; one that cannot be fetched becomes a note.

        `transcribe` turns recordings into text; without it a note says that they are not
        transcribed.
        """
        images, notes, total = list[ImageBlock](), list[str](), 0
        for attachment in attachments[:MAX_FILES]:
            try:
                data = await _fetched(adapter, attachment, MAX_TOTAL_BYTES - total)
            except MediaError as error:
                notes.append(f"[{_named(attachment)}: not available. {_line(str(error))}]")
                continue
            total += len(data)
            kind = image_type(data)
            if kind and reads_images and len(data) <= MAX_IMAGE_BYTES:
                images.append(ImageBlock(base64.b64encode(data).decode(), kind))
                notes.append(f"[{_named(attachment)}: see the image]")
            else:
                notes.append(await self._transcribed(attachment, data, transcribe))
        if len(attachments) > MAX_FILES:
            notes.append(f"[{len(attachments) - MAX_FILES} further files were not fetched]")
        return Files(tuple(images), tuple(notes))

    async def _transcribed(
        self, attachment: Attachment, data: bytes, transcribe: Transcribe | None
    ) -> str:
        """Returns the text of a recording, as text of its sender, or the note about a file."""
        if attachment.kind is not AttachmentKind.AUDIO:
            return await self._store(attachment, data)
        if transcribe is None:
            return await self._store(attachment, data, NOT_TRANSCRIBED)
        try:
            text = await transcribe(data, clean_name(attachment.name), attachment.mime)
        except MediaError as error:
            return await self._store(
                attachment, data, f"It is not transcribed: {_line(str(error))}"
            )
        return f"[{_named(attachment)}: transcribed, it says]\n{well_formed(text)}"

    async def _store(self, attachment: Attachment, data: bytes, note: str = "") -> str:
        name = f"{secrets.token_hex(8)}-{clean_name(attachment.name) or 'file'}"
        path = self.folder / INBOUND / name
        try:
            await anyio.to_thread.run_sync(self._write, path, data)
        except OSError as error:
            logger.warning("a file of a message cannot be stored: %s", error)
            return f"[{_named(attachment)}: it could not be stored]"
        note = f". {note}" if note else ""
        return f"[{_named(attachment)}, {len(data)} bytes: stored as {path}{note}]"

    def _write(self, path: Path, data: bytes) -> None:
        make_private(self.folder)
        make_private(path.parent)
        drop_expired(path.parent, self.clock.now_ms())
        write_atomic(path, data)


def expire(folder: Path, now: int) -> None:
    """Deletes the copies of sent and received files that are older than a week. Blocks."""
    for subfolder in folder.iterdir() if folder.is_dir() else ():
        drop_expired(subfolder, now)


def drop_expired(folder: Path, now: int) -> None:
    """Deletes the files of a folder that are older than a week. Blocks."""
    for old in folder.iterdir():
        if old.stat().st_mtime * 1000 < now - LASTS_MS:
            old.unlink(missing_ok=True)


async def with_files(
    runtime: Runtime, request: RunRequest, arrived: InboundMessage, config: Config
) -> RunRequest:
    """Returns the request with the images of a message and a line about each file."""
    sender = runtime.delivery.senders.get((arrived.channel, arrived.account))
    agent = request.key.agent
    try:
        _, model = await runtime.models.choose(config.primary_model(agent))
        reads_images = "image" in model.input
    except ModelUnavailableError:
        reads_images = False
    transcribe, transcriber = None, runtime.transcriber()
    if transcriber is not None:
        target = CallTarget(agent=agent, run_id=request.run_id, channel=arrived.channel)
        transcribe = partial(transcriber.transcribe, target=target)
    folder = MediaFolder(config.state_dir / MEDIA, runtime.clock)
    files = await folder.receive(
        sender.adapter if sender else None,
        arrived.attachments,
        reads_images=reads_images,
        transcribe=transcribe,
    )
    text = "\n\n".join(part for part in (request.text, "\n".join(files.notes)) if part.strip())
    return replace(request, text=text, images=files.images)


async def _fetched(adapter: ChannelAdapter | None, attachment: Attachment, limit: int) -> bytes:
    if not isinstance(adapter, Fetches):
        raise MediaError("The platform's adapter fetches no files.")
    try:
        with anyio.fail_after(FETCH_SECONDS):
            return await adapter.fetch(attachment, max(min(MAX_BYTES, limit), 0))
    except TimeoutError:
        raise MediaError(f"It took more than {FETCH_SECONDS:g} s.") from None
    except MediaError:
        raise
    except Exception as error:
        # An error of an adapter must not lose the message.
        logger.exception("a file of a message cannot be fetched")
        raise MediaError(f"{type(error).__name__}.") from error


def image_type(data: bytes) -> str | None:
    """Returns the media type of an image that models take; None for other bytes."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    kinds: Callable[[bytes], bool] = data.startswith
    return next((kind for begin, kind in _SIGNATURES.items() if kinds(begin)), None)


def _named(attachment: Attachment) -> str:
    words = {
        AttachmentKind.IMAGE: "Image",
        AttachmentKind.AUDIO: "Audio",
        AttachmentKind.VIDEO: "Video",
        AttachmentKind.FILE: "File",
    }
    name = clean_name(attachment.name)
    return f"{words[attachment.kind]} {name}" if name else words[attachment.kind]


def clean_name(name: str) -> str:
    """Returns a name without folders, blanks, brackets and hidden characters."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return _ODD.sub("_", last).strip("._")[:_MAX_NAME]


def _line(text: str) -> str:
    return " ".join(text.split()).replace("[", "(").replace("]", ")")[:200]
