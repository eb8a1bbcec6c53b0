"""MS Teams as Microsoft's own playground of bots plays it, in Chromium."""

import shutil
import subprocess
import sys

import pytest

from tests.support.playground import PROGRAM, ROOT

pytestmark = pytest.mark.full("Chromium, Microsoft's playground")

ALONE = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
"""Runs a command where no network is but loopback: the playground listens on all addresses."""


def test_microsofts_playground_holds_a_conversation_with_the_bot() -> None:
    can = shutil.which("unshare") and shutil.which("ip")
    if not can or subprocess.run([*ALONE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system gives no network namespace")
    assert PROGRAM.exists(), f"{PROGRAM} is missing: make test-all installs it"
    command = [*ALONE, sys.executable, "-m", "tests.support.playground"]
    completed = subprocess.run(command, check=False, capture_output=True, cwd=ROOT, timeout=240)
    assert completed.returncode == 0, completed.stderr.decode()[-4000:]
