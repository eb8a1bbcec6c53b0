"""Fetches the files of an admitted message: images for the model, the others into a folder.

Names and types are the sender's words: the first bytes decide what is an image, and a name is
cleaned before it is shown or written.
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

MOST_FILES: Final = 10
"""Files of a message that are fetched."""
MOST_BYTES: Final = 20_000_000
"""Bytes of one file."""
MOST_IMAGE: Final = 6_291_456
"""Bytes of an image for a model; a larger one is stored as a file."""
MOST_TOGETHER: Final = 40_000_000
"""Bytes of all files of a message."""
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
_MOST_NAME: Final = 64
_ODD: Final = re.compile(r"[^\w.-]+")


Hear = Callable[[bytes, str, str], Awaitable[str]]
"""Function from the bytes, the name and the type of a recording to its words."""
UNHEARD: Final = "It is not transcribed: no transcription provider is configured"


class Files(Struct, frozen=True):
    """Files of a message, as the model gets them."""

    images: tuple[ImageBlock, ...] = ()
    notes: tuple[str, ...] = ()
    """A line about each file."""


class MediaFolder(Struct, frozen=True):
    """Folder of the files that people sent, and what is done with those of a message."""

    folder: Path
    clock: Clock

    async def receive(
        self,
        adapter: ChannelAdapter | None,
        attachments: Sequence[Attachment],
        *,
        reads_images: bool,
        hear: Hear | None = None,
    ) -> Files:
        """Fetches the files; one that cannot be had is a note, and never loses the message.

        `hear` makes text of recordings; without it each is said to be untranscribed.
        """
        images, notes, together = list[ImageBlock](), list[str](), 0
        for attachment in attachments[:MOST_FILES]:
            try:
                data = await _fetched(adapter, attachment, MOST_TOGETHER - together)
            except MediaError as error:
                notes.append(f"[{_named(attachment)}: not available. {_line(str(error))}]")
                continue
            together += len(data)
            kind = image_type(data)
            if kind and reads_images and len(data) <= MOST_IMAGE:
                images.append(ImageBlock(base64.b64encode(data).decode(), kind))
                notes.append(f"[{_named(attachment)}: see the image]")
            else:
                notes.append(await self._transcribed(attachment, data, hear))
        if len(attachments) > MOST_FILES:
            notes.append(f"[{len(attachments) - MOST_FILES} further files were not fetched]")
        return Files(tuple(images), tuple(notes))

    async def _transcribed(self, attachment: Attachment, data: bytes, hear: Hear | None) -> str:
        """Returns the words of a recording, as words of its sender, or the note about a file."""
        if attachment.kind is not AttachmentKind.AUDIO:
            return await self._store(attachment, data)
        if hear is None:
            return await self._store(attachment, data, UNHEARD)
        try:
            text = await hear(data, clean_name(attachment.name), attachment.mime)
        except MediaError as error:
            return await self._store(
                attachment, data, f"It is not transcribed: {_line(str(error))}"
            )
        return f"[{_named(attachment)}: transcribed, it says]\n{well_formed(text)}"

    async def _store(self, attachment: Attachment, data: bytes, more: str = "") -> str:
        name = f"{secrets.token_hex(8)}-{clean_name(attachment.name) or 'file'}"
        path = self.folder / INBOUND / name
        try:
            await anyio.to_thread.run_sync(self._write, path, data)
        except OSError as error:
            logger.warning("a file of a message cannot be stored: %s", error)
            return f"[{_named(attachment)}: it could not be stored]"
        more = f". {more}" if more else ""
        return f"[{_named(attachment)}, {len(data)} bytes: stored as {path}{more}]"

    def _write(self, path: Path, data: bytes) -> None:
        make_private(self.folder)
        make_private(path.parent)
        drop_expired(path.parent, self.clock.now_ms())
        write_atomic(path, data)


def expire(folder: Path, now: int) -> None:
    """Deletes the copies of files, sent and received, that are older than a week. Blocks."""
    for beneath in folder.iterdir() if folder.is_dir() else ():
        drop_expired(beneath, now)


def drop_expired(folder: Path, now: int) -> None:
    """Deletes the files of a folder that are older than a week. Blocks."""
    for old in folder.iterdir():
        if old.stat().st_mtime * 1000 < now - LASTS_MS:
            old.unlink(missing_ok=True)


async def with_files(
    runtime: Runtime, request: RunRequest, arrived: InboundMessage, config: Config
) -> RunRequest:
    """Returns the request with the images of a message and a line about each of its files."""
    sender = runtime.delivery.senders.get((arrived.channel, arrived.account))
    agent = request.key.agent
    try:
        _, model = await runtime.models.choose(config.primary_model(agent))
        reads_images = "image" in model.input
    except ModelUnavailableError:
        reads_images = False
    hear, transcriber = None, runtime.transcriber()
    if transcriber is not None:
        target = CallTarget(agent=agent, run_id=request.run_id, channel=arrived.channel)
        hear = partial(transcriber.transcribe, target=target)
    folder = MediaFolder(config.state_dir / MEDIA, runtime.clock)
    files = await folder.receive(
        sender.adapter if sender else None,
        arrived.attachments,
        reads_images=reads_images,
        hear=hear,
    )
    text = "\n\n".join(part for part in (request.text, "\n".join(files.notes)) if part.strip())
    return replace(request, text=text, images=files.images)


async def _fetched(adapter: ChannelAdapter | None, attachment: Attachment, left: int) -> bytes:
    if not isinstance(adapter, Fetches):
        raise MediaError("The platform's adapter fetches no files.")
    try:
        with anyio.fail_after(FETCH_SECONDS):
            return await adapter.fetch(attachment, max(min(MOST_BYTES, left), 0))
    except TimeoutError:
        raise MediaError(f"It took more than {FETCH_SECONDS:g} s.") from None
    except MediaError:
        raise
    except Exception as error:
        # The code of one platform must not hold back the message.
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
    return _ODD.sub("_", last).strip("._")[:_MOST_NAME]


def _line(text: str) -> str:
    return " ".join(text.split()).replace("[", "(").replace("]", ")")[:200]
