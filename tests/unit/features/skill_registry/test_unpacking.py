"""Archives of strangers: accepted and refused members."""

import io
import stat
import tarfile
import zipfile

import pytest

from skerry.features.skill_registry.errors import SkillError
from skerry.features.skill_registry.unpacking import SKILL_LIMITS, ArchiveLimits, Member, unpacked
from skerry.testing.skill_registry import zipped

SMALL = ArchiveLimits(files=3, file_bytes=100_000, total_bytes=150_000)


def zip_of(*members: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()


def tar_of(*members: tarfile.TarInfo, mode: str = "w:gz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]  # modes
        for info in members:
            archive.addfile(info, io.BytesIO(b"x" * info.size))
    return buffer.getvalue()


def tar_info(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, "/etc/passwd"
    return info


def special(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def test_plain_files_in_folders_are_unpacked() -> None:
    data = zip_of(("docs/", b""), ("SKILL.md", b"text"), ("docs/more.md", b"more"))
    assert unpacked(data, SKILL_LIMITS) == [
        Member("SKILL.md", b"text"),
        Member("docs/more.md", b"more"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "a/../../outside",
        "/etc/passwd",
        "a\\..\\outside",
        "C:/windows",
        "a//b",
        "a/./b",
        "line\nbreak",
        "\u202egpj.sh",
        "trailing /x",
        "/".join("abcdefghijkl"),
        "x" * 300,
    ],
)
@pytest.mark.abuse(81)
def test_a_path_that_leads_out_or_deceives_is_refused(name: str) -> None:
    with pytest.raises(SkillError, match="the path"):
        unpacked(zip_of((name, b"x")), SKILL_LIMITS)


@pytest.mark.parametrize("pair", [("a.md", "A.md"), ("a", "a/b"), ("a/b", "A/c"), ("é", "e\u0301")])
def test_paths_that_a_file_system_may_not_tell_apart_are_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(SkillError, match="differ only in case"):
        unpacked(zip_of(*((name, b"x") for name in pair)), SKILL_LIMITS)


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO, stat.S_IFSOCK])
@pytest.mark.abuse(81)
def test_links_and_devices_in_a_zip_are_refused(kind: int) -> None:
    with pytest.raises(SkillError, match="a link or a device"):
        unpacked(zip_of((special("link", kind | 0o777), b"/etc/passwd")), SKILL_LIMITS)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_in_a_tar_are_refused(kind: bytes) -> None:
    with pytest.raises(SkillError, match="a link or a device"):
        unpacked(tar_of(tar_info("link", kind)), SKILL_LIMITS, "tar")


def test_a_tar_may_begin_its_names_with_a_dot() -> None:
    folder, file = tar_info("./", tarfile.DIRTYPE), tar_info("./bin/tool", size=3)
    file.mode = 0o755
    for mode in ("w", "w:gz", "w:bz2", "w:xz"):
        assert unpacked(tar_of(folder, file, mode=mode), SMALL, "tar") == [
            Member("bin/tool", b"xxx", is_executable=True)
        ]


@pytest.mark.abuse(81)
def test_sizes_are_counted_while_unpacking() -> None:
    bomb = zipped({"zeros": bytes(1_900_000)})
    assert len(bomb) < 3_000
    with pytest.raises(SkillError, match="times its size"):
        unpacked(bomb, SKILL_LIMITS)
    with pytest.raises(SkillError, match="more than 100000 bytes"):
        unpacked(zip_of(("a", bytes(range(256)) * 500)), SMALL)
    with pytest.raises(SkillError, match="unpacks to more than 150000"):
        unpacked(zip_of(*((name, bytes(range(256)) * 300) for name in "abc")), SMALL)
    with pytest.raises(SkillError, match="more than 3 files"):
        unpacked(zip_of(*((name, b"x") for name in "abcd")), SMALL)
    with pytest.raises(SkillError, match="unpacks to more than 150000"):
        unpacked(tar_of(tar_info("zeros", size=5_000_000)), SMALL, "tar")


def test_damaged_and_encrypted_archives_are_refused() -> None:
    whole = zip_of(("SKILL.md", b"text" * 100))
    for data in (b"", b"PK\x03\x04", whole[:-30], whole.replace(b"SKILL.md", b"SKILX.md", 1)):
        with pytest.raises(SkillError, match="refused"):
            unpacked(data, SKILL_LIMITS)
    locked = bytearray(whole)
    locked[whole.rindex(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(SkillError, match="encrypted"):
        unpacked(bytes(locked), SKILL_LIMITS)
    for data in (b"\x1f\x8bxx", b"no tar at all"):
        with pytest.raises(SkillError, match="damaged"):
            unpacked(data, SKILL_LIMITS, "tar")
