"""`skerry open`: opens the page, or prints its address, with the token."""

import os
import sys
from argparse import Namespace
from pathlib import Path
from shutil import which
from typing import Final

import anyio

from skerry.cli.failure import complain
from skerry.cli.gateway import page_of, state
from skerry.cli.render import notice, show
from skerry.client.discover import find
from skerry.config.load import locate
from skerry.infra.atomic import write_atomic
from skerry.infra.process import ProcessError, hand_over

LINK: Final = "open-page.html"
"""File for the browser in the state directory (0600): an address in a command line would be visible
in the list of processes."""
_PAGE: Final = """<!doctype html>
<meta charset="utf-8"><meta name="referrer" content="no-referrer"><title>Skerry</title>
<script>location.replace({address})</script>
"""
_SECONDS: Final = 10.0


def run(arguments: Namespace) -> int:
    """Runs `skerry open`; returns the exit code.

    The address with the token is printed to a terminal only: a pipe or a journal would store it.
    """
    address = find(os.environ, url=arguments.url, token=arguments.token)
    mode = anyio.run(state, address)["authMode"]
    page = page_of(address)
    # A password, which a person may use elsewhere too, is typed on the page.
    secret = address.token if mode != "password" else None
    link = f"{page}#token={secret}" if secret else page
    if not arguments.print and _has_display() and _browse(link, Path(locate(os.environ)[0])):
        show(f"Opened {page} in the browser.")
        return 0
    if secret and not sys.stdout.isatty():
        show(page)
        reason = "The address with the token is shown on a terminal only."
        return complain(reason, "Run `skerry open` in a terminal.", "skerry open")
    show(link)
    if secret:
        notice("Whoever has this address can use the gateway: keep it to yourself.")
    return 0


def _has_display() -> bool:
    named = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return sys.stdout.isatty() and bool(named or sys.platform == "darwin")


def _browse(link: str, folder: Path) -> bool:
    """Opens the address in the browser; returns False when no browser accepted it."""
    program = which("open" if sys.platform == "darwin" else "xdg-open")
    if program is None:
        return False
    quoted = '"' + link.replace("\\", "\\\\").replace('"', '\\"').replace("<", "\\u003c") + '"'
    path = folder / LINK
    try:
        write_atomic(path, _PAGE.format(address=quoted).encode())
        return hand_over([program, path.as_uri()], seconds=_SECONDS, silent=True) == 0
    except (OSError, ProcessError):
        return False
