"""The ways out of a sandbox: none leads out of bubblewrap, under root and under a user."""

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.support.escaping import Extended, Outside, Results, bubblewrap, listed, reachable, run_as

pytestmark = pytest.mark.anyio

USER = 61_234
"""A user of no machine."""
MIN_PROBES = 290
"""Probes; fewer mean that not all were run."""
UNSEEN = (
    "read-old-root",
    "read-new-root",
    "read-stage",
    "read-descriptor-3",
    "read-every-descriptor",
    "read-first-root",
    "read-first-cwd",
    "write-first-root",
    "tells-",
    "setting-",
    "socket-var",
    "socket-run",
    "names",
    "key",
    "alg",
    "tipc",
    "bluetooth",
    "xdp",
    "vsock",
    "call-init_module",
    "call-finit_module",
    "call-delete_module",
    "call-kexec_load",
    "call-iopl",
    "call-ioperm",
    "call-setns-x32",
    "call-newer-than-all",
    "call-memfd_secret",
    "own-environment",
    "closed-",
    "terminal-",
    "tcp-metadata",
    "process-many",
    "same-namespace-cgroup",
    "stay-",
    "families",
    "family-",
    "netlink-xfrm",
    "netlink-selinux",
    "netlink-connector",
    "netlink-crypto",
    "netlink-smc",
    "netlink-diagnosis",
    "call-by-int-80",
    "machine-",
    "listed-udp",
    "listed-tcp6",
    "attribute-security",
    "users-",
    "core-files",
    "cpu-time",
    "fork-bomb",
    "memory",
    "fill-",
    "large-file",
    "open-files",
    "system-",
    "new-privileges",
    "raise-a-limit",
    "set-user-program",
    "enter-user",
    "raise-rights",
    "remount-sys",
    "unmount-sys",
    "filter",
    "rights",
    "pivot-root",
    "remount-usr",
)
"""Beginnings of probes that are not run outside, or find nothing there on every machine."""
WEAK = (
    "mount-",
    "remount-",
    "unmount-",
    "unshare-",
    "clone-",
    "enter-",
    "become-",
    "other-",
    "file-rights",
    "chroot-",
    "pivot-root",
    "mknod-",
    "set-user-by-",
    "make-",
)
"""Beginnings of probes that are only run in namespaces of their own."""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as another user")


def held(results: Results) -> dict[str, str]:
    """Returns the probes that got out, which should be none."""
    assert len(results) >= MIN_PROBES
    return {name: detail for name, (out, detail) in results.items() if out}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can reach, as that of a test is not."""
    with tempfile.TemporaryDirectory(prefix="skerry-escapes-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.requirement("sandbox-seccomp")
async def test_no_way_leads_out(folder: Path) -> None:
    with Outside(folder) as placed:
        results = await placed.inside(Extended(bubblewrap()))
        assert held(results) == {}
        assert placed.staying() == []


@needs_root
def test_no_way_leads_out_for_an_ordinary_user(folder: Path) -> None:
    (folder / "first").mkdir()
    program = folder / "program"
    backend = Extended(bubblewrap(reachable(program)), program / "probes")
    own = folder / "own"
    own.mkdir()
    work = partial(_results, backend)
    work(folder / "first")  # imports what the other user may not be able to read
    results, staying = run_as(USER, own, work)
    assert held(results) == {}
    assert staying == []


def _results(backend: Extended, folder: Path) -> tuple[Results, list[int]]:
    with Outside(folder) as placed:
        # As the gateway runs it: uvloop starts processes in its own way.
        results = anyio.run(placed.inside, backend, backend_options={"use_uvloop": True})
        return results, placed.staying()


@needs_root
async def test_the_probes_get_out_where_nothing_holds_them(folder: Path) -> None:
    with Outside(folder) as placed:
        names = sorted(listed())
        weak = [name for name in names if name.startswith(tuple(WEAK))]
        safe = [name for name in names if name not in weak and not name.startswith(tuple(UNSEEN))]
        results = placed.control(safe) | placed.weak([n for n in weak if n not in _unseen(weak)])
    unable = {name: detail for name, (out, detail) in results.items() if not out}
    assert unable == {}
    assert len(results) >= 120


def _unseen(names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(tuple(UNSEEN))]


async def test_a_terminal_takes_no_input_from_the_command(folder: Path) -> None:
    with Outside(folder) as placed:
        expected = [name for name in listed() if name.startswith("terminal-")]
        results = await placed.inside(Extended(bubblewrap()), expected, pty=True)
    assert len(results) == 5
    assert not any(out for out, _ in results.values())
