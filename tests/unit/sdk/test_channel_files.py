"""Files of accounts: their limits, their kinds, and those that are gone."""

from pathlib import Path

import pytest

from skerry.sdk.channel_files import byte_limit, fetched_file, kind_of, read_file
from skerry.sdk.channel_host import Fetched, FormFile, Outcome
from skerry.sdk.channels import (
    Attachment,
    AttachmentKind,
    DeliveryRefusedError,
    MediaError,
    OutboundMedia,
)

PICTURE = Attachment(AttachmentKind.IMAGE, "1", "image/png", "cat.png", 1_500_000)


@pytest.mark.parametrize(
    ("limit", "most_mb", "most"), [(9_000_000, 2, 2_000_000), (1_600_000, 2, 1_600_000)]
)
def test_the_smaller_limit_counts(limit: int, most_mb: int, most: int) -> None:
    assert byte_limit(PICTURE, limit, most_mb) == most


def test_a_file_that_says_to_be_too_large_is_not_fetched() -> None:
    with pytest.raises(MediaError, match=r"cat\.png has 1500000 bytes; 1000000 are allowed"):
        byte_limit(PICTURE, 9_000_000, 1)


@pytest.mark.parametrize(
    "fetched",
    [
        Fetched(Outcome.ALLOW, "public", "The server answered 404.", 404),
        Fetched(Outcome.ABORT, "body-limit", "The body is too long.", 200, truncated=True),
    ],
)
def test_a_file_that_is_not_whole_is_refused_with_the_reason(fetched: Fetched) -> None:
    with pytest.raises(MediaError, match=f"cat.png cannot be fetched: {fetched.reason}"):
        fetched_file(PICTURE, fetched)
    assert fetched_file(PICTURE, Fetched(Outcome.ALLOW, "public", "", 200, body=b"x")) == b"x"


def test_the_kind_of_a_file_is_that_of_its_type() -> None:
    kinds = [kind_of(mime) for mime in ("image/png", "audio/ogg", "text/plain", "", None)]
    image, audio, file = AttachmentKind.IMAGE, AttachmentKind.AUDIO, AttachmentKind.FILE
    assert kinds == [image, audio, file, file, file]


async def test_a_file_is_read_by_its_name_or_that_of_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"four")
    media = OutboundMedia(AttachmentKind.FILE, str(path), "text/plain")
    assert await read_file(media, 4) == FormFile("a.txt", "text/plain", b"four")
    with pytest.raises(DeliveryRefusedError, match="4 bytes; 3 are allowed"):
        await read_file(media, 3)
    path.unlink()
    with pytest.raises(DeliveryRefusedError, match="cannot be read: No such file"):
        await read_file(media)
