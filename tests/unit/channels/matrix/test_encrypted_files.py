"""Encrypted files: both ways, changed bytes, and descriptions that are none."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.channels.matrix import encrypted_files
from skerry.channels.matrix.wire import Members, Room, RoomEvent, inbound
from skerry.model.ids import AccountId

ADDRESS = "mxc://local/abc"


def made(data: bytes) -> tuple[bytes, dict[str, Any]]:
    encrypted, content = encrypted_files.sealed(data)
    return encrypted, content | {"url": ADDRESS}


@given(st.binary(max_size=100))
def test_a_file_comes_back_by_the_name_that_holds_its_key(data: bytes) -> None:
    encrypted, content = made(data)
    file = encrypted_files.parsed(content)
    assert file is not None
    named = encrypted_files.of_handle(encrypted_files.handle(file))
    assert named is not None
    assert named.url == ADDRESS
    assert encrypted_files.opened(named, encrypted) == data
    assert not data or encrypted != data


def test_two_files_never_share_a_key() -> None:
    first, second = made(b"same")[1], made(b"same")[1]
    assert first["key"]["k"] != second["key"]["k"]
    assert first["iv"] != second["iv"]
    assert first["hashes"] != second["hashes"]


def test_changed_bytes_and_broken_keys_are_refused() -> None:
    encrypted, content = made(b"words")
    file = msgspec.convert(content, encrypted_files.EncryptedFile)
    with pytest.raises(encrypted_files.BrokenFileError, match="SHA-256"):
        encrypted_files.opened(file, encrypted + b"x")
    for changed in ({"iv": "AAAA"}, {"iv": "é"}, {"key": content["key"] | {"k": "AAAA"}}):
        broken = msgspec.convert(content | changed, encrypted_files.EncryptedFile)
        with pytest.raises(encrypted_files.BrokenFileError, match="key"):
            encrypted_files.opened(broken, encrypted)


@pytest.mark.parametrize(
    "changed",
    [
        {"url": "https://elsewhere/x"},
        {"url": "mxc://" + "x" * 600},
        {"v": "v1"},
        {"hashes": {}},
        {"key": {"k": "x", "alg": "A128CTR"}},
        {"key": "x"},
        {"iv": 7},
    ],
    ids=lambda changed: str(changed)[:40],
)
def test_what_describes_no_encrypted_file_is_none(changed: dict[str, Any]) -> None:
    assert encrypted_files.parsed(made(b"")[1] | changed) is None
    assert encrypted_files.parsed(changed) is None


def test_a_message_with_an_encrypted_file_names_it() -> None:
    _, file = made(b"words")
    info = {"mimetype": "text/plain", "size": 5}
    content = {"msgtype": "m.file", "body": "a.txt", "info": info, "file": file}
    room = Room("!r:local", msgspec.convert({"joined": {"@me:l": {}, "@a:l": {}}}, Members))
    event = RoomEvent("m.room.message", "@a:l", "$e", 5, content)
    message = inbound(event, room, AccountId("default"), "@me:l", 9, None)
    assert message is not None
    (attachment,) = message.attachments
    assert (attachment.name, attachment.mime, attachment.size) == ("a.txt", "text/plain", 5)
    named = encrypted_files.of_handle(attachment.handle)
    assert named is not None
    assert named.url == ADDRESS
    assert encrypted_files.of_handle(ADDRESS) is None
