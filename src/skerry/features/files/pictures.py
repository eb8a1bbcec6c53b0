"""Pictures of the workspace for models that see; imports Pillow.

The size is read from the head of the file before anything is decoded, so that a small file that
holds a huge picture is refused at once. Models whose input has no pictures get the description.
"""

import io
from base64 import b64encode
from typing import BinaryIO, Final

from PIL import Image, ImageOps, UnidentifiedImageError

from skerry.model.errors import ToolError
from skerry.model.message import ImageBlock

MAX_BYTES: Final = 16 * 1024 * 1024
"""Bytes of a file."""
MAX_PIXELS: Final = 40_000_000
"""Pixels that are decoded."""
MAX_SIDE: Final = 2000
"""Pixels of the longer side that a model gets."""
MAX_SENT: Final = 2 * 1024 * 1024
"""Bytes that a model gets."""
_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
_QUALITIES: Final = (85, 60, 35)


def picture(path: str, file: BinaryIO) -> tuple[ImageBlock, str]:
    """Returns the picture as a model gets it, and its description.

    Raises:
        ToolError: it is no picture that can be read, or too large.
    """
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ToolError(f"{path} has more than {MAX_BYTES} bytes. Make it smaller first.")
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise ToolError(
                    f"{path} has {width} x {height} pixels, more than {MAX_PIXELS}. Make it"
                    " smaller first."
                )
            kind = image.format or ""
            described = f"{path}: {kind} picture, {width} x {height} pixels."
            fits = max(width, height) <= MAX_SIDE and len(data) <= MAX_SENT
            if fits:
                image.verify()
                return _block(data, f"image/{kind.lower()}"), described
            return _smaller(image), f"{described} It is shown smaller."
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError) as error:
        raise ToolError(f"{path} is no picture that can be read.") from error
    except SyntaxError as error:  # Pillow raises it for a damaged PNG
        raise ToolError(f"{path} is a damaged picture.") from error


def _smaller(image: Image.Image) -> ImageBlock:
    """Returns the first frame, upright, within the limits."""
    image.draft("RGB", (MAX_SIDE, MAX_SIDE))
    upright = ImageOps.exif_transpose(image)
    upright.thumbnail((MAX_SIDE, MAX_SIDE))
    flat = Image.new("RGB", upright.size, "white")
    shown = upright.convert("RGBA")
    flat.paste(shown, mask=shown.getchannel("A"))
    out = io.BytesIO()
    for quality in _QUALITIES:
        out = io.BytesIO()
        flat.save(out, "JPEG", quality=quality)
        if out.tell() <= MAX_SENT:
            break
    return _block(out.getvalue(), "image/jpeg")


def _block(data: bytes, kind: str) -> ImageBlock:
    return ImageBlock(b64encode(data).decode(), kind)
