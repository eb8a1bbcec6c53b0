"""Files for people on platforms: opened by descriptor, checked, and copied until they are sent.

The copy in the state directory is sent, so that a later change of the file, or a crash, has no
effect on the delivery. Copies older than a week are deleted; this also removes a copy whose outbox
row was never written.
"""

import mimetypes
import re
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePath
from typing import Final

import anyio.to_thread
from msgspec import Struct, field

from skerry.infra.atomic import make_private, write_atomic
from skerry.infra.clock import Clock
from skerry.infra.rooted_fs import EscapeError, RootedFolder
from skerry.model.inbound import AttachmentKind, ReplyTo
from skerry.model.outbound import Additions, Content, OutboundMedia
from skerry.model.undelivered import MediaError
from skerry.policy.taint import guarded_act, reason
from skerry.policy.tool_policy import ToolPolicy
from skerry.ports.tool import ToolContext, call_of, permission
from skerry.runtime.media_in import clean_name, drop_expired
from skerry.runtime.run_context import MEDIA, RunPlan, named_file, relative_path

OUTBOUND: Final = "outbound"
MAX_FILES: Final = 10
"""Limit on the files that one answer may send."""
_SECRET_NAMES: Final = re.compile(
    r"(?:id_(?:rsa|dsa|ecdsa|ed25519)|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)"
    r"|auth-profiles\.json|credentials(?:\.\w+)?|skerry\.json5?|openclaw\.json5?)",
    re.IGNORECASE,
)
"""File names that are typical of secrets."""
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY")
_PROGRAMS: Final = (
    b"\x7fELF",
    b"MZ",
    b"\xcf\xfa\xed\xfe",
    b"\xce\xfa\xed\xfe",
    b"\xca\xfe\xba\xbe",
)
_TYPES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"OggS", "audio/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"\xff\xf3", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"%PDF-", "application/pdf"),
)
_CONTAINERS: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_KINDS: Final = {
    "image": AttachmentKind.IMAGE,
    "audio": AttachmentKind.AUDIO,
    "video": AttachmentKind.VIDEO,
}
_UNSEEN: Final = frozenset({"image/svg+xml"})
"""Types of pictures that platforms accept only as files."""


class OutboundFile(Struct, frozen=True):
    """Name, type and content of a file for a person."""

    name: str
    mime: str
    data: bytes

    @property
    def kind(self) -> AttachmentKind:
        """Returns the kind of attachment that it is sent as."""
        if self.mime in _UNSEEN:
            return AttachmentKind.FILE
        return _KINDS.get(self.mime.partition("/")[0], AttachmentKind.FILE)


def read_file(
    workspace: RootedFolder, reference: str, max_bytes: int, redact: Callable[[str], str] = str
) -> OutboundFile:
    """Reads a file of the workspace, if its rules and its content allow to send it.

    Raises:
        MediaError: the file is missing, closed, too large, or looks like a secret or a program.
    """
    path = relative_path(reference, workspace.root)
    names = PurePath(path).parts
    if any(name.startswith(".") for name in names) or (
        names and _SECRET_NAMES.fullmatch(names[-1])
    ):
        raise MediaError("files of this name may hold secrets")
    try:
        with workspace.look(path) as (file, opened):
            if (opened.size or 0) > max_bytes:
                raise MediaError(f"it has {opened.size} bytes; at most {max_bytes} are sent")
            data = file.read(max_bytes + 1)
    except EscapeError as error:
        raise MediaError(error.reason) from error
    except FileNotFoundError:
        raise MediaError("there is no such file") from None
    except OSError as error:
        raise MediaError(f"it cannot be read: {error.strerror}") from error
    _judge(data, max_bytes, redact)
    return OutboundFile(names[-1], media_type(names[-1], data), data)


def _judge(data: bytes, max_bytes: int, redact: Callable[[str], str]) -> None:
    if not data:
        raise MediaError("it is empty")
    if len(data) > max_bytes:
        raise MediaError(f"it has more than {max_bytes} bytes")
    if data.startswith(_PROGRAMS):
        raise MediaError("programs are not sent")
    if _PRIVATE_KEY.search(data):
        raise MediaError("it has a private key")
    if b"\0" in data[:8192]:
        return  # no text
    text = data.decode("utf-8", "replace")
    if redact(text) != text:
        raise MediaError("it has a key or a token")


def media_type(name: str, data: bytes) -> str:
    """Returns the type by the first bytes, else by the name; a picture only by its bytes."""
    if data[:4] == b"RIFF" and data[8:12] in _CONTAINERS:
        return _CONTAINERS[data[8:12]]
    if data[4:8] == b"ftyp":
        return "audio/mp4" if data[8:11] == b"M4A" else "video/mp4"
    for begin, kind in _TYPES:
        if data.startswith(begin):
            return kind
    guessed = mimetypes.guess_type(name)[0] or "application/octet-stream"
    is_shown = guessed.partition("/")[0] in _KINDS and guessed not in _UNSEEN
    return "application/octet-stream" if is_shown else guessed


class Outbox(Struct, frozen=True):
    """The folder with the copies of files to send."""

    state_dir: Path
    clock: Clock
    max_bytes: int
    """Limit on one file, in bytes."""
    redact: Callable[[str], str] = str
    """Removes secrets from text; a file that it changes is not sent."""

    async def copied(
        self, workspace: RootedFolder, reference: str, *, voice: bool = False
    ) -> OutboundMedia:
        """Copies a file of the workspace; returns the value for its outbox row.

        Raises:
            MediaError: as `read_file`, or the copy cannot be written.
        """
        return await anyio.to_thread.run_sync(partial(self._copy, workspace, reference, voice))

    def _copy(self, workspace: RootedFolder, reference: str, voice: bool) -> OutboundMedia:  # noqa: FBT001 - one caller
        file = read_file(workspace, reference, self.max_bytes, self.redact)
        return self.keep(file, voice=voice)

    def keep(self, file: OutboundFile, *, voice: bool = False) -> OutboundMedia:
        """Writes the copy of a file, and deletes copies that are older than a week."""
        folder = self.state_dir / MEDIA / OUTBOUND
        path = folder / f"{secrets.token_hex(8)}-{clean_name(file.name) or 'file'}"
        try:
            make_private(folder.parent)
            make_private(folder)
            drop_expired(folder, self.clock.now_ms())
            write_atomic(path, file.data)
        except OSError as error:
            raise MediaError(f"it cannot be copied: {error.strerror}") from error
        is_voice = voice and file.kind is AttachmentKind.AUDIO
        return OutboundMedia(file.kind, str(path), file.mime, file.name, is_voice)


def discard(media: OutboundMedia) -> None:
    """Deletes the copy of a file that was sent."""
    path = Path(media.path)
    if path.parent.name == OUTBOUND and path.parent.parent.name == MEDIA:
        path.unlink(missing_ok=True)


class AnswerMedia(Struct):
    """Sends the files that the answers of one run name, if the run may read them.

    A file may be sent if the tool `read` may open it in the same run. In a conversation with other
    people, a tainted run sends no files: as with the tool `message`, a person would have to approve
    it. Each file is sent once.
    """

    plan: RunPlan
    context: Callable[[], ToolContext]
    """Returns the context of a tool call of the run, with its present taint."""
    layers: Callable[[], ToolPolicy]
    _sent: set[str] = field(default_factory=set)

    async def contents(self, text: str, *, voice: bool) -> list[str | Content]:
        """Splits a text into texts and the files that it names, in order."""
        contents: list[str | Content] = []
        words: list[str] = []
        for line in text.splitlines(keepends=True):
            reference = self.plan.files.references.get(line.strip())
            if reference is None:
                words.append(line)
                continue
            content = await self._content(reference, voice=voice)
            if isinstance(content, str):
                words.append(content + line[len(line.rstrip()) :])
                continue
            contents += [*_joined(words), content]
            words = []
        return [*contents, *_joined(words)]

    async def _content(self, reference: str, *, voice: bool) -> Content | str:
        """Returns the file, or a line with the reason why it is not sent."""
        runtime, to = self.plan.runtime, self.plan.active.request.reply_to
        if to is None or (to.channel, to.account) not in runtime.delivery.senders:
            return named_file(reference)
        if reference in self._sent:
            return named_file(reference)
        try:
            media = await self._copied(reference, to, voice=voice)
        except MediaError as error:
            return f"{named_file(reference)} (not sent: {error})"
        self._sent.add(reference)
        return Content("", Additions(media=media))

    async def _copied(self, reference: str, to: ReplyTo, *, voice: bool) -> OutboundMedia:
        runtime, config = self.plan.runtime, self.plan.config
        if not runtime.delivery.takes_files(to):
            raise MediaError("this platform takes no files")
        if len(self._sent) >= MAX_FILES:
            raise MediaError(f"an answer sends at most {MAX_FILES} files")
        context, tool = self.context(), runtime.tools.get("read")
        if tool is None:
            raise MediaError("this agent has no tool `read`")
        call = call_of(tool, {"path": reference}, context, self.layers())
        decision = permission(tool, context.caller, call)
        if not decision.allowed:
            raise MediaError(decision.reason or decision.rule)
        if context.actor.is_tainted and not context.actor.is_private:
            # Text of others may have caused the sending; only the owner may then get the file.
            raise MediaError(reason(guarded_act("message"), context.taint))
        redact = runtime.approvals.redact if runtime.approvals else str
        max_bytes = config.agents.defaults.media_max_mb * 1_000_000
        folder = Outbox(config.state_dir, runtime.clock, max_bytes, redact)
        return await folder.copied(context.workspace, reference, voice=voice)


def _joined(words: list[str]) -> list[str]:
    text = "".join(words).strip("\n")
    return [text] if text.strip() else []
