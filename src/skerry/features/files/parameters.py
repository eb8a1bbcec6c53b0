"""Parts shared by the file tools: limits, names of parameters, and errors that name a remedy."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

from pydantic import Field

from skerry.infra.rooted_fs import EscapeError, ForbiddenError
from skerry.model.errors import OutsideWorkspaceError, ToolError

MAX_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of a written or edited file, in bytes."""

FilePath = Annotated[
    str, Field(description="File, relative to the workspace.", min_length=1, max_length=1024)
]
PATH_ALIASES: Final = {"file_path": "path", "filePath": "path"}


@contextmanager
def explained(verb: str, path: str) -> Iterator[None]:
    """Converts file errors to errors with a remedy for the model."""
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
    """Returns the bytes of a file's new content.

    Raises:
        ToolError: the content is too large or not valid Unicode.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"Cannot write {path}: content has half of a surrogate pair.") from error
    if len(data) > MAX_BYTES:
        raise ToolError(f"Cannot write {path}: content exceeds {MAX_BYTES} bytes. Write less.")
    return data
