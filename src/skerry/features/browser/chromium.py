"""Finds Chromium, and starts it so that its only way to a network is a proxy of the gateway."""

import os
import re
import shutil
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct

from skerry.features.browser.cdp import Cdp
from skerry.infra.pipes import ReadPipe, WritePipe
from skerry.infra.process import Child, Program, allowed, child
from skerry.infra.supervise import first_of, in_background

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names of the program, in the order in which they are looked up."""
MISSING: Final = "Install Chromium (Debian: apt install chromium), or set browser.executablePath."
"""Remedy when no program exists."""
ROOT: Final = (
    "Chromium has no sandbox as root. Run the gateway as another user, or set browser.noSandbox"
    " to true."
)
"""Remedy when the gateway runs as root."""
GRACE_SECONDS: Final = 3.0
"""Seconds in which Chromium may write its profile before it is killed."""
WINDOW: Final = (1280, 800)
"""Width and height of a page, in pixels."""
_VARIABLES: Final = re.compile("PATH|LANG|LC_[A-Z]+|TZ|LD_LIBRARY_PATH|FONTCONFIG_[A-Z]+")
_PIPES: Final = 'exec 3</dev/fd/$1 4>/dev/fd/$2 >/dev/null; shift 2; exec "$@"'
"""Puts the pipes on the descriptors that Chromium expects, whatever their numbers are here."""
_FEATURES: Final = (
    "AutofillServerCommunication",
    "CertificateTransparencyComponentUpdater",
    "DialMediaRouteProvider",
    "DnsOverHttps",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "Prerender2",
    "Translate",
    "WebOTP",
    "WebTransport",
)
"""Disabled features: those that contact servers themselves, or use UDP."""
_NOWHERE: Final = "https://services.invalid/"
_SERVICES: Final = ("gaia", "google-apis", "google-base", "sync", "variations-server", "lso")
FLAGS: Final = (
    "--headless=new",
    "--remote-debugging-pipe",
    # Addresses of this machine also go to the proxy; without the entry Chromium connects itself.
    "--proxy-bypass-list=<-loopback>",
    # The proxy resolves names. A request that misses the proxy finds no address.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--dns-prefetch-disable",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-features=" + ",".join(_FEATURES),
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-notifications",
    "--disable-print-preview",
    "--disable-search-engine-choice-screen",
    "--disable-speech-api",
    "--disable-sync",
    "--disk-cache-size=52428800",
    "--deny-permission-prompts",
    "--disable-blink-features=WebTransport",
    "--log-level=3",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
    "--no-service-autorun",
    "--password-store=basic",
    # Services of the vendor, at a name that the policy refuses without a look-up.
    *(f"--{service}-url={_NOWHERE}" for service in _SERVICES),
    f"--window-size={WINDOW[0]},{WINDOW[1]}",
)


class Launch(Struct, frozen=True):
    """One start of Chromium."""

    program: str
    folder: Path
    """Folder with its profile, its temporary files and its home; of mode 700."""
    proxy_port: int
    environ: Mapping[str, str]
    """Environment of the gateway, of which a few variables are passed on."""
    no_sandbox: bool = False

    @property
    def flags(self) -> Sequence[str]:
        """Returns the arguments of Chromium."""
        own = [
            f"--proxy-server=http://127.0.0.1:{self.proxy_port}",
            f"--user-data-dir={self.folder / 'profile'}",
            *(["--no-sandbox"] if self.no_sandbox else []),
        ]
        return (*FLAGS, *own, "about:blank")

    @property
    def variables(self) -> dict[str, str]:
        """Returns the environment of Chromium: no key of the gateway, and a home of its own."""
        home = str(self.folder / "home")
        return {
            **allowed(self.environ, _VARIABLES),
            "HOME": home,
            "TMPDIR": "/tmp",  # noqa: S108 - the path of a socket there must be short
            "DBUS_SESSION_BUS_ADDRESS": "disabled:",
            "DBUS_SYSTEM_BUS_ADDRESS": "disabled:",
        }


def found(executable: str | None, environ: Mapping[str, str]) -> str | None:
    """Returns the path of the configured program, or of the first in PATH; None without one."""
    path = environ.get("PATH", os.defpath)
    names = PROGRAMS if executable is None else (str(Path(executable).expanduser()),)
    return next(filter(None, (shutil.which(name, path=path) for name in names)), None)


@asynccontextmanager
async def launched(launch: Launch) -> AsyncGenerator[tuple[Cdp, Child]]:
    """Runs Chromium during the block; ends its process group at the end, or with this process.

    Raises:
        NotStartedError: the program cannot be started.
    """
    (launch.folder / "home").mkdir(mode=0o700, parents=True, exist_ok=True)
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    reading = ReadPipe(os.fdopen(ours_in, "rb", buffering=0))
    writing = WritePipe(os.fdopen(ours_out, "wb", buffering=0))
    pipes = (theirs_in, theirs_out)
    command = ["/bin/sh", "-c", _PIPES, "sh", *map(str, pipes), launch.program, *launch.flags]
    program = Program(command, launch.variables, descriptors=pipes)
    try:
        with ExitStack() as theirs:
            for number in pipes:
                theirs.callback(os.close, number)
            async with child(program) as process:
                theirs.close()  # else the end of the browser would not end the pipe
                cdp = Cdp(reading, writing)
                async with in_background(partial(_served, cdp, process)):
                    try:
                        yield cdp, process
                    finally:
                        await _closed(writing, process)
    finally:
        await reading.aclose()
        await writing.aclose()


async def _served(cdp: Cdp, process: Child) -> None:
    """Exchanges messages until Chromium ends; its guard may hold the pipe open for longer."""
    await first_of(cdp.run, process.wait)
    cdp.end()


async def _closed(writing: WritePipe, process: Child) -> None:
    """Ends Chromium by the end of its pipe, so that it writes its profile first.

    A signal would also end the process of its network, which writes the cookies.
    """
    with anyio.move_on_after(GRACE_SECONDS, shield=True):
        await writing.aclose()
        await process.wait()
