"""The allocator keeps little of what threads have freed."""

import subprocess
import sys

import pytest

_COUNT = """
import ctypes, sys, threading
from skerry.infra.heap import few_arenas

library = ctypes.CDLL(None)
if not hasattr(library, "malloc_info"):
    sys.exit("no glibc")
if sys.argv[1] == "few":
    few_arenas()
together = threading.Barrier(12)

def work():
    library.malloc.restype = ctypes.c_void_p
    library.malloc(100_000)
    together.wait()

threads = [threading.Thread(target=work) for _ in range(12)]
for one in threads:
    one.start()
for one in threads:
    one.join()
library.fdopen.restype = ctypes.c_void_p
out = ctypes.c_void_p(library.fdopen(1, b"w"))
library.malloc_info(0, out)
library.fflush(out)
"""


@pytest.mark.parametrize("given", ["few", "many"])
def test_threads_share_two_arenas(given: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _COUNT, given],
        capture_output=True,
        text=True,
        check=False,
        env={},
    )
    if "no glibc" in ran.stderr:
        pytest.skip("the allocator is not glibc's")
    arenas = ran.stdout.count("<heap nr=")
    assert (arenas <= 2) is (given == "few"), ran
