"""Limits the unused memory of glibc's allocator; does nothing with another C library."""

import ctypes
import threading
from typing import Final

LARGE: Final = 1024 * 1024
"""Size of a frame, in bytes, after which `give_back` is worth its cost."""
_MMAP_THRESHOLD: Final = -3
"""The number of `M_MMAP_THRESHOLD` in glibc's `malloc.h`."""
_ARENA_MAX: Final = -8
"""The number of `M_ARENA_MAX` there."""
_ARENAS: Final = 2
_MMAP_BYTES: Final = 256 * 1024
"""Size, in bytes, from which an object gets pages of its own, which the system gets back."""

_turn = threading.Lock()


def few_arenas() -> None:
    """Limits the allocator to two arenas. Call it before a thread has created another arena.

    glibc creates up to eight arenas for each core, and none uses the free memory of another: worker
    threads that start and end cost 18 MB beside 31 in use after an hour of messages, and a MB more
    every few minutes. The interpreter lock lets one thread allocate at a time, so that none waits
    here. Large objects get pages of their own: otherwise glibc keeps memory of the size of the
    largest freed object, and as much at the end of an arena.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_ARENA_MAX, _ARENAS)
        library.mallopt(_MMAP_THRESHOLD, _MMAP_BYTES)


def give_back() -> None:
    """Returns free pages to the system. Blocks for some milliseconds; thread-safe."""
    with _turn:
        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):
            library.malloc_trim(0)
