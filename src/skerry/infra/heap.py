"""Keeps the allocator from holding unused memory. Only glibc can do it."""

import ctypes
import threading
from typing import Final

LARGE: Final = 1024 * 1024
"""Bytes of a frame after which memory is given back."""
_MMAP_THRESHOLD: Final = -3
"""The number of `M_MMAP_THRESHOLD` in glibc's `malloc.h`."""
_ARENA_MAX: Final = -8
"""The number of `M_ARENA_MAX` there."""
_ARENAS: Final = 2
_APART: Final = 256 * 1024
"""Bytes from which on an object has pages of its own, which its end gives back."""

_turn = threading.Lock()


def few_arenas() -> None:
    """Lets all threads take memory from two arenas; to be called before there are others.

    glibc has up to eight for each core, and none can use what is free in another: with worker
    threads that start and end, 18 MB beside 31 in use after an hour of messages, and a MB more
    every few minutes. Our threads take turns anyway, so that none waits for another here. Large
    objects get pages of their own: else glibc keeps the place of the largest one that it has freed
    for the next one of its size, and as much at the end of an arena.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_ARENA_MAX, _ARENAS)
        library.mallopt(_MMAP_THRESHOLD, _APART)


def give_back() -> None:
    """Returns free pages to the system; blocks for some milliseconds."""
    with _turn:
        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):
            library.malloc_trim(0)
