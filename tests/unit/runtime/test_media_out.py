"""Files for people: accepted files, refused files, and the lifetime of a copy."""

import os
from pathlib import Path

import pytest

from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.inbound import AttachmentKind
from skerry.model.origin import Origin
from skerry.model.outbound import OutboundMedia
from skerry.model.undelivered import MediaError
from skerry.policy.decide import Actor
from skerry.runtime.media_in import LASTS_MS
from skerry.runtime.media_out import OUTBOUND, OutboundFile, Outbox, discard, media_type, read_file
from skerry.testing.clock import FakeClock

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
NOW = 1_800_000_000_000


def workspace(home: Path, actor: Actor | None = None) -> RootedFolder:
    config = Config(state_dir=home, path=home / "skerry.json")
    root = config.workspace(config.agents.default_id)
    root.mkdir(parents=True, exist_ok=True)
    return RootedFolder(root, gate(config, actor) if actor else gate(config))


def test_a_file_of_the_workspace_has_its_name_type_and_bytes(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root.root / "out").mkdir()
    (root.root / "out" / "chart.png").write_bytes(PNG)
    whole = root.root / "out" / "chart.png"
    for reference in ("out/chart.png", "./out/chart.png", str(whole), f"file://{whole}"):
        file = read_file(root, reference, 1000)
        assert (file.name, file.mime, file.data) == ("chart.png", "image/png", PNG)
        assert file.kind is AttachmentKind.IMAGE


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("big.bin", b"x" * 101, "101 bytes; at most 100"),
        ("empty.txt", b"", "empty"),
        (".env", b"x", "may hold secrets"),
        (".ssh/config", b"x", "may hold secrets"),
        ("id_rsa", b"x", "may hold secrets"),
        ("server.PEM", b"x", "may hold secrets"),
        ("auth-profiles.json", b"{}", "may hold secrets"),
        ("notes.txt", b"-----BEGIN OPENSSH PRIVATE KEY-----", "private key"),
        ("notes.md", b"the word is swordfish", "a key or a token"),
        ("tool.png", b"\x7fELF" + bytes(20), "programs"),
    ],
)
@pytest.mark.abuse(80)
def test_secrets_programs_and_large_files_are_never_sent(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    root = workspace(tmp_path)
    path = root.root / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(MediaError, match=reason):
        read_file(root, name, 100, lambda text: text.replace("swordfish", "***"))


@pytest.mark.abuse(80)
@pytest.mark.parametrize("reference", ["../skerry.json", "link.txt", "twice.txt", "pipe", "folder"])
def test_what_is_no_plain_file_of_the_workspace_is_refused(tmp_path: Path, reference: str) -> None:
    root = workspace(tmp_path)
    (tmp_path / "skerry.json").write_text("{}")
    (tmp_path / "other.txt").write_text("x")
    (root.root / "link.txt").symlink_to(tmp_path / "other.txt")
    (root.root / "twice.txt").hardlink_to(tmp_path / "other.txt")
    (root.root / "folder").mkdir()
    os.mkfifo(root.root / "pipe")
    with pytest.raises(MediaError):
        read_file(root, reference, 100)


def test_the_memory_is_sent_to_its_owner_alone(tmp_path: Path) -> None:
    owner, guest = Actor(Origin.OWNER, is_private=True), Actor(Origin.KNOWN)
    tainted = Actor(Origin.OWNER, is_private=True, taint=frozenset({Origin.STRANGER}))
    (workspace(tmp_path).root / "MEMORY.md").write_text("likes tea")
    assert read_file(workspace(tmp_path, owner), "MEMORY.md", 100).data == b"likes tea"
    for actor in (guest, tainted):
        with pytest.raises(MediaError, match="memory"):
            read_file(workspace(tmp_path, actor), "MEMORY.md", 100)


@pytest.mark.parametrize(
    ("name", "data", "mime"),
    [
        ("a.txt", PNG, "image/png"),
        ("a.png", b"no picture", "application/octet-stream"),
        ("a.webp", b"RIFF0000WEBP", "image/webp"),
        ("a", b"OggS0000", "audio/ogg"),
        ("a.m4a", b"0000ftypM4A 0000", "audio/mp4"),
        ("a.mp4", b"0000ftypisom0000", "video/mp4"),
        ("a.csv", b"1,2", "text/csv"),
        ("a.unknown-ending", b"1,2", "application/octet-stream"),
    ],
)
def test_the_bytes_decide_what_is_a_picture(name: str, data: bytes, mime: str) -> None:
    assert media_type(name, data) == mime


def test_a_drawing_with_scripts_is_shown_as_a_file() -> None:
    assert OutboundFile("a.svg", media_type("a.svg", b"<svg>"), b"<svg>").kind is (
        AttachmentKind.FILE
    )


def test_a_copy_lasts_until_it_is_sent_or_a_week_old(tmp_path: Path) -> None:
    folder = Outbox(tmp_path, FakeClock(NOW), 1000)
    file = OutboundFile("o k/../x.png", "image/png", PNG)
    media = folder.keep(file, voice=True)
    path = Path(media.path)
    assert path.parent == tmp_path / "media" / OUTBOUND
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (PNG, 0o600)
    assert not media.voice, "a picture is no voice message"
    os.utime(path, (NOW / 1000 - LASTS_MS / 1000 - 1,) * 2)
    second = folder.keep(file)
    assert not path.exists()
    discard(second)
    discard(second)
    assert list(path.parent.iterdir()) == []


def test_only_copies_are_deleted(tmp_path: Path) -> None:
    path = tmp_path / "own.png"
    path.write_bytes(PNG)
    discard(OutboundMedia(AttachmentKind.IMAGE, str(path)))
    assert path.exists()
