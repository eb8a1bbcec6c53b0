"""Pictures that `read` returns: their form for models, and limits before the decoding."""

import io
import zlib
from base64 import b64decode
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from PIL import Image

from skerry.config.root import Config
from skerry.features.files.image import Image as ImageTool
from skerry.features.files.read_tool import Read
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.errors import OutsideWorkspaceError, ToolError
from skerry.model.message import ImageBlock
from skerry.model.tool import ToolResult
from skerry.ports.tool import ToolContext
from skerry.runtime.pictures import MAX_SENT, MAX_SIDE
from skerry.sdk.tool_host import ToolHost
from skerry.testing.clock import FakeClock

if TYPE_CHECKING:
    from skerry.store import Store


async def read(root: Path, name: str, data: bytes) -> ToolResult:
    (root / name).write_bytes(data)
    return await Read().run({"path": name}, ToolContext(RootedFolder(root)))


def encoded(kind: str, size: tuple[int, int]) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, "red").save(out, kind)
    return out.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_picture_is_shown_as_it_is(tmp_path: Path, kind: str) -> None:
    data = encoded(kind, (8, 6))
    result = await read(tmp_path, "a.txt", data)
    (block,) = result.blocks
    assert isinstance(block, ImageBlock)
    assert (b64decode(block.data), block.mime_type) == (data, f"image/{kind.lower()}")
    assert result.text == f"a.txt: {kind} picture, 8 x 6 pixels."


async def test_a_large_picture_is_shown_smaller(tmp_path: Path) -> None:
    result = await read(tmp_path, "a.png", encoded("PNG", (MAX_SIDE * 2, 100)))
    (block,) = result.blocks
    assert isinstance(block, ImageBlock)
    data = b64decode(block.data)
    assert len(data) <= MAX_SENT
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (MAX_SIDE, 50)


@pytest.mark.abuse(105)
async def test_a_small_file_with_a_huge_picture_is_refused_before_it_is_decoded(
    tmp_path: Path,
) -> None:
    def chunk(name: bytes, data: bytes) -> bytes:
        crc = zlib.crc32(name + data).to_bytes(4, "big")
        return len(data).to_bytes(4, "big") + name + data + crc

    size = (60_000).to_bytes(4, "big")
    head = chunk(b"IHDR", size + size + bytes([8, 2, 0, 0, 0]))
    bomb = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(1000)))
    with pytest.raises(ToolError, match=r"pixels|not a readable picture"):
        await read(tmp_path, "a.png", bomb)


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\nnothing", b"\xff\xd8\xffx", b"GIF89a"])
async def test_a_damaged_picture_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ToolError, match="picture"):
        await read(tmp_path, "a.png", data)


async def images(root: Path, **arguments: object) -> ToolResult:
    host = ToolHost(config=Config, store=cast("Store", None), environ={}, clock=FakeClock())
    return await ImageTool(host).run(arguments, ToolContext(RootedFolder(root)))


async def test_the_tool_image_shows_several_pictures_beside_the_question(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(encoded("PNG", (4, 4)))
    result = await images(tmp_path, prompt="Which is larger?", image="a.png", images=["b.png"])
    assert len(result.blocks) == 2
    assert result.text.splitlines()[0] == "Which is larger?"
    with pytest.raises(ToolError, match="image required"):
        await images(tmp_path)
    with pytest.raises(ToolError, match="exceed maxImages=1"):
        await images(tmp_path, images=["a.png", "b.png"], maxImages=1)
    (tmp_path / "link.png").symlink_to(tmp_path / "a.png")
    with pytest.raises(OutsideWorkspaceError):
        await images(tmp_path, image="link.png")
