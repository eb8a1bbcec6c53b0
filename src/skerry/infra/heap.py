"""Gives back to the system what the allocator keeps of memory that nobody uses any more."""

import threading
from typing import Final

LARGE: Final = 1024 * 1024
"""Bytes of a frame after which memory is given back."""
_MMAP_THRESHOLD: Final = -3
"""The number of `M_MMAP_THRESHOLD` in glibc's `malloc.h`."""
_APART: Final = 256 * 1024
"""Bytes from which on an object has pages of its own, which its end gives back."""

_turn = threading.Lock()


def give_back() -> None:
    """Return free pages to the system; blocks for some milliseconds. Only glibc can do it.

    glibc keeps the place of the largest object that it has freed for the next one of its size: one
    frame of 26 MB would be paid for until the process ends. So large objects get pages of their
    own from here on.
    """
    import ctypes  # noqa: PLC0415 - 1 MB and 10 ms, which a start does without

    with _turn:
        library = ctypes.CDLL(None)
        if hasattr(library, "malloc_trim"):
            library.mallopt(_MMAP_THRESHOLD, _APART)
            library.malloc_trim(0)
