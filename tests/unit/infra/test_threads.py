"""A blocking call in a thread that nobody has to wait for."""

import subprocess
import sys
import threading

import anyio
import pytest

from skerry.infra.threads import in_daemon_thread


async def test_it_returns_what_the_call_returns() -> None:
    thread = await in_daemon_thread(threading.current_thread, "a name")
    assert (thread.name, thread.daemon) == ("a name", True)


async def test_what_the_call_raises_comes_out() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_daemon_thread(lambda: 1 // 0, "test")


async def test_a_call_that_would_end_the_program_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="SystemExit"):
        await in_daemon_thread(lambda: sys.exit(3), "test")


async def test_a_call_that_hangs_is_left_behind() -> None:
    with anyio.move_on_after(0.05) as scope:
        await in_daemon_thread(threading.Event().wait, "test")
    assert scope.cancelled_caught


def test_a_call_that_hangs_does_not_hold_up_the_end_of_the_process() -> None:
    program = (
        "import anyio, threading\n"
        "from skerry.infra.threads import in_daemon_thread\n"
        "async def main():\n"
        "    with anyio.move_on_after(0.05):\n"
        "        await in_daemon_thread(threading.Event().wait, 'test')\n"
        "anyio.run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)
    assert done.returncode == 0
