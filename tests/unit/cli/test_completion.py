"""`skerry completion`: a script that the shell itself can read."""

import shutil

import anyio
import pytest

from .conftest import Command


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_the_script_names_commands_and_options(command: Command, shell: str) -> None:
    completed = await command("completion", shell)
    assert completed.returncode == 0
    for name in (b"gateway", b"sessions", b"completion", b"json"):
        assert name in completed.stdout


async def test_bash_completes_a_command(command: Command) -> None:
    script = (await command("completion", "bash")).stdout.decode()
    bash = shutil.which("bash")
    assert bash is not None
    asked = 'COMP_WORDS=(skerry gate); COMP_CWORD=1; _shtab_skerry; echo "${COMPREPLY[@]}"'
    with anyio.fail_after(60):
        completed = await anyio.run_process(
            [bash, "--norc", "-c", f"{script}\n{asked}"], check=False
        )
    assert completed.stdout.strip() == b"gateway"
