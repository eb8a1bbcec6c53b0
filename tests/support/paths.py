"""Forms of paths that lead out of a workspace in some program; `{home}` is the folder above it."""

from itertools import product
from typing import Final

_UP: Final = ("..", "../", "./..", "sub/../..", "../.", ".//..", "..\\", "%2e%2e", "..%2f", "．．")  # noqa: RUF001 - full width
_TARGETS: Final = (
    "canary.txt",
    "/canary.txt",
    "//canary.txt",
    "made.txt",
    "CANARY.TXT",
    "canary.txt/",
    "canary.txt\0.png",
    "./canary.txt",
    "canary.txt ",
    " canary.txt",
    "workspace/../canary.txt",
)
FORMS: Final = (
    *(f"{up}/{target}" for up, target in product(_UP, _TARGETS)),
    *(f"sub/{up}/{up}/{target}" for up, target in product(_UP, _TARGETS[:8])),
    "{home}/canary.txt",
    "//{home}/canary.txt",
    "file://{home}/canary.txt",
    "@{home}/canary.txt",
    "@../canary.txt",
    "~/canary.txt",
    "~root/canary.txt",
    "$HOME/canary.txt",
    "link.txt",
    "./link.txt",
    "sub/../link.txt",
    "up/canary.txt",
    "up/../canary.txt",
    "up/workspace/../canary.txt",
    "dangling",
    "/proc/self/cwd/canary.txt",
    "/proc/self/root{home}/canary.txt",
    "/dev/fd/0",
    "",
    ".",
    "..",
    "/",
    "a.txt/../../canary.txt",
    "a.txt/canary.txt",
    "C:\\canary.txt",
    "\\\\server\\canary.txt",
    "..\u2215canary.txt",
    "..\uff0fcanary.txt",
    "MEDIA:../canary.txt",
)
