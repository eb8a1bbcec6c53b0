"""Parts shared by the file tools: limits, names of parameters, and errors that name a remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

from pydantic import Field

from skerry.infra.rooted_fs import EscapeError, ForbiddenError
from skerry.model.errors import OutsideWorkspaceError, ToolError

MAX_BYTES: Final = 4 * 1024 * 1024
"""Size limit of a file that is written or edited."""

FilePath = Annotated[
    str, Field(description="File, relative to the workspace.", min_length=1, max_length=1024)
]
PATH_ALIASES: Final = {"file_path": "path", "filePath": "path"}


@contextmanager
def explained(verb: str, path: str) -> Iterator[None]:
    """Turns what goes wrong with a file into what the model can do about it."""
    try:
        yield
    except ForbiddenError as error:
        raise OutsideWorkspaceError(f"Cannot {verb} {path}: {error.reason}.") from error
    except EscapeError as error:
        raise OutsideWorkspaceError(
            f"Cannot {verb} {path}: {error.reason}. Give a path of a plain file inside the"
            " workspace."
        ) from error
    except OSError as error:
        raise ToolError(f"Cannot {verb} {path}: {error.strerror}.") from error


def encoded(text: str, path: str) -> bytes:
    """Returns the bytes of what a file is to hold.

    Raises:
        ToolError: it is too much.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"Cannot write {path}: half of a surrogate pair is no text.") from error
    if len(data) > MAX_BYTES:
        raise ToolError(f"Cannot write {path}: a file may have {MAX_BYTES} bytes. Write less.")
    return data
