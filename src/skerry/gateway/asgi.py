"""Server of uvicorn, without the command line that its package also imports.

`import uvicorn` brings click, multiprocessing and every reloader that is installed: more CPU than
the server itself costs, and 2.4 MB. Nothing here uses them, and the package has no import without
them.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

_COMMAND_LINE: Final = "uvicorn.main"
_NAMES: Final = ("Server", "main", "run")
"""Names that the package imports from there and exports again."""


@contextmanager
def _without_command_line() -> Iterator[None]:
    """Replaces the command line of the package by an empty module, for the block only.

    The command line itself can be imported afterwards.
    """
    if "uvicorn" in sys.modules:
        yield
        return
    stand_in = sys.modules[_COMMAND_LINE] = ModuleType(_COMMAND_LINE)
    vars(stand_in).update(dict.fromkeys(_NAMES))
    try:
        yield
    finally:
        del sys.modules[_COMMAND_LINE]
        for name in _NAMES:
            delattr(sys.modules["uvicorn"], name)


with _without_command_line():
    from uvicorn.config import Config
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
    from uvicorn.server import Server

__all__ = ["Config", "H11Protocol", "Server", "WebSocketsSansIOProtocol"]
