"""Files for people on platforms: opened by descriptor, judged, and copied until they are sent.

A copy in the state directory is what goes out: what happens to the file of the workspace between
the answer and its delivery changes nothing, and a kill loses nothing. A copy whose outbox row was
never written has no use, and is deleted with all others that are older than a week.
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
MOST_FILES: Final = 10
"""Files that one answer may send."""
_SECRET_NAMES: Final = re.compile(
    r"(?:id_(?:rsa|dsa|ecdsa|ed25519)|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)"
    r"|auth-profiles\.json|credentials(?:\.\w+)?|skerry\.json5?|openclaw\.json5?)",
    re.IGNORECASE,
)
"""Names of files that are made for secrets."""
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
"""Types of pictures that platforms take as files only."""


class OutboundFile(Struct, frozen=True):
    """A file as it was read for a person."""

    name: str
    mime: str
    data: bytes

    @property
    def kind(self) -> AttachmentKind:
        """Returns as which kind platforms show it."""
        if self.mime in _UNSEEN:
            return AttachmentKind.FILE
        return _KINDS.get(self.mime.partition("/")[0], AttachmentKind.FILE)


def read_file(
    workspace: RootedFolder, reference: str, most: int, redact: Callable[[str], str] = str
) -> OutboundFile:
    """Returns a file of the workspace that may be sent, by its rules and by what it holds.

    Raises:
        MediaError: it is none, is closed, is too large, or looks like a secret or a program.
    """
    path = relative_path(reference, workspace.root)
    names = PurePath(path).parts
    if any(name.startswith(".") for name in names) or (
        names and _SECRET_NAMES.fullmatch(names[-1])
    ):
        raise MediaError("files of this name may hold secrets")
    try:
        with workspace.look(path) as (file, opened):
            if (opened.size or 0) > most:
                raise MediaError(f"it has {opened.size} bytes; at most {most} are sent")
            data = file.read(most + 1)
    except EscapeError as error:
        raise MediaError(error.reason) from error
    except FileNotFoundError:
        raise MediaError("there is no such file") from None
    except OSError as error:
        raise MediaError(f"it cannot be read: {error.strerror}") from error
    _judge(data, most, redact)
    return OutboundFile(names[-1], media_type(names[-1], data), data)


def _judge(data: bytes, most: int, redact: Callable[[str], str]) -> None:
    if not data:
        raise MediaError("it is empty")
    if len(data) > most:
        raise MediaError(f"it has more than {most} bytes")
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
    """Returns the type by the first bytes, else by the name; a picture is one by its bytes only."""
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
    """The folder of files that wait until they are sent."""

    state_dir: Path
    clock: Clock
    most: int
    """Bytes of one file."""
    redact: Callable[[str], str] = str
    """Takes secrets out of text: a file that has some is not sent."""

    async def copied(
        self, workspace: RootedFolder, reference: str, *, voice: bool = False
    ) -> OutboundMedia:
        """Copies a file of the workspace; returns what its outbox row has.

        Raises:
            MediaError: as `read_file`, or the copy cannot be written.
        """
        return await anyio.to_thread.run_sync(partial(self._copy, workspace, reference, voice))

    def _copy(self, workspace: RootedFolder, reference: str, voice: bool) -> OutboundMedia:  # noqa: FBT001 - one caller
        return self.keep(read_file(workspace, reference, self.most, self.redact), voice=voice)

    def keep(self, file: OutboundFile, *, voice: bool = False) -> OutboundMedia:
        """Writes the copy of a file, and deletes those that are older than a week."""
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
    """Sends the files that the answers of one run name, as far as its run may read them.

    The answer goes to the conversation that asked, which may read by it what the tool `read` may
    open for the same run, and nothing else. Where others read along, a run with words of others
    sends none: as with the tool `message`, a person would have to be asked. Each file is sent once.
    """

    plan: RunPlan
    context: Callable[[], ToolContext]
    """Returns the resources of a tool call of the run, with what it has read so far."""
    layers: Callable[[], ToolPolicy]
    _sent: set[str] = field(default_factory=set)

    async def contents(self, text: str, *, voice: bool) -> list[str | Content]:
        """Returns the pieces of a text in order: words, and files where it names them."""
        pieces: list[str | Content] = []
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
            pieces += [*_joined(words), content]
            words = []
        return [*pieces, *_joined(words)]

    async def _content(self, reference: str, *, voice: bool) -> Content | str:
        """Returns the file, or the line that says why it is not sent."""
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
        if len(self._sent) >= MOST_FILES:
            raise MediaError(f"an answer sends at most {MOST_FILES} files")
        context, tool = self.context(), runtime.tools.get("read")
        if tool is None:
            raise MediaError("this agent has no tool `read`")
        call = call_of(tool, {"path": reference}, context, self.layers())
        decision = permission(tool, context.caller, call)
        if not decision.allowed:
            raise MediaError(decision.reason or decision.rule)
        if context.actor.is_tainted and not context.actor.is_private:
            # The owner may read what words of others made the model send; others may not.
            raise MediaError(reason(guarded_act("message"), context.taint))
        redact = runtime.approvals.redact if runtime.approvals else str
        most = config.agents.defaults.media_max_mb * 1_000_000
        folder = Outbox(config.state_dir, runtime.clock, most, redact)
        return await folder.copied(context.workspace, reference, voice=voice)


def _joined(words: list[str]) -> list[str]:
    text = "".join(words).strip("\n")
    return [text] if text.strip() else []
