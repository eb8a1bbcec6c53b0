"""Imports uvicorn's server without the command line of its package.

`import uvicorn` also imports click, multiprocessing and every installed reloader: more CPU than the
server itself needs, and 2.4 MB. The gateway uses none of them.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Final

_COMMAND_LINE: Final = "uvicorn.main"
_NAMES: Final = ("Server", "main", "run")
"""Names that `uvicorn` imports from its command line and exports again."""


@contextmanager
def _without_command_line() -> Iterator[None]:
    """Replaces the command line of the package by an empty module during the block.

    It can be imported normally afterwards.
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
