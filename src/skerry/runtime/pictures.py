"""Pictures of files and devices for models with image input; imports Pillow.

The size is read from the header before decoding, so that a small file with a huge picture is
refused at once. Models without image input receive the description.
"""

import io
from base64 import b64encode
from typing import BinaryIO, Final

from PIL import Image, ImageOps, UnidentifiedImageError

from skerry.model.errors import ToolError
from skerry.model.message import ImageBlock

MAX_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a file in bytes."""
MAX_PIXELS: Final = 40_000_000
"""Maximum number of decoded pixels."""
MAX_SIDE: Final = 2000
"""Maximum length of the longer side for a model, in pixels."""
MAX_SENT: Final = 2 * 1024 * 1024
"""Maximum size of a picture for a model, in bytes."""
_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
_QUALITIES: Final = (85, 60, 35)


def picture(path: str, file: BinaryIO) -> tuple[ImageBlock, str]:
    """Returns the picture for a model, and its description.

    Raises:
        ToolError: the file is not a readable picture, or too large.
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
            return _smaller(image), f"{described} It was scaled down."
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, ValueError) as error:
        raise ToolError(f"{path} is not a readable picture.") from error
    except SyntaxError as error:  # Pillow raises it for a damaged PNG
        raise ToolError(f"{path} is a damaged picture.") from error


def _smaller(image: Image.Image) -> ImageBlock:
    """Returns the first frame, rotated upright and scaled to the limits."""
    image.draft("RGB", (MAX_SIDE, MAX_SIDE))
    upright = ImageOps.exif_transpose(image)
    upright.thumbnail((MAX_SIDE, MAX_SIDE))
    flat = Image.new("RGB", upright.size, "white")
    rgba = upright.convert("RGBA")
    flat.paste(rgba, mask=rgba.getchannel("A"))
    out = io.BytesIO()
    for quality in _QUALITIES:
        out = io.BytesIO()
        flat.save(out, "JPEG", quality=quality)
        if out.tell() <= MAX_SENT:
            break
    return _block(out.getvalue(), "image/jpeg")


def _block(data: bytes, kind: str) -> ImageBlock:
    return ImageBlock(b64encode(data).decode(), kind)
