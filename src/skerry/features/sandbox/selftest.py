"""Runs the self-test of a backend like a command."""

import secrets
from typing import Final

import anyio

from skerry.config.root import Config
from skerry.config.sandbox import SandboxConfig, SandboxLimits
from skerry.features.sandbox import canaries
from skerry.features.sandbox.sandbox_holder import Backend, Granted, Sandboxes
from skerry.model.errors import SandboxError
from skerry.model.ids import MAIN_AGENT
from skerry.ports.sandbox import SandboxProcess, SandboxSpec, SelfCheck, SelfTest

MIN_CHECKS: Final = 30
"""Number of checks of the script; fewer mean that it ended early."""
_END_LINE: Final = b"@done ok"


async def test(
    sandboxes: Sandboxes, backend: Backend, settings: SandboxConfig, config: Config
) -> SelfTest:
    """Returns the result; a backend that does not work raises nothing."""
    checks: list[SelfCheck] = []
    mark = f"canary-{secrets.token_hex(8)}"
    plain = settings.model_copy(update={"docker": _plain(settings.docker)})
    reason = output = ""
    with canaries.placed() as (workspace, outside, environ):
        argv = ["/bin/sh", "-c", canaries.SCRIPT.read_text("utf-8"), mark]
        spec = SandboxSpec(argv, workspace, MAIN_AGENT, env=environ, listens=True)
        granted = Granted(spec, plain, config, "rw", "none", canaries.LIMITS, f"test-{mark}")
        try:
            with anyio.fail_after(canaries.SECONDS):
                async with sandboxes.within(backend, granted) as process:
                    output = await _read(process)
                    inner = await anyio.to_thread.run_sync(canaries.processes, mark)
                    checks += canaries.results(output)
                    checks += canaries.outside_checks(workspace, outside, inner)
                checks.append(await _ended(mark))
        except SandboxError as error:
            reason = f"{error} {error.remedy}"
        except TimeoutError:
            reason = f"The self-test did not end within {canaries.SECONDS:g} s."
    if not reason and not any(check.id == "done" for check in checks):
        reason = f"The script of the self-test ended early: {output.strip()[-300:]}"
    failed = [check.id for check in checks if not check.ok]
    if not reason and failed:
        reason = f"The self-test failed: {', '.join(failed)}."
    if not reason and len(checks) < MIN_CHECKS:
        reason = f"The self-test made only {len(checks)} checks."
    return SelfTest(backend.name, not reason, tuple(checks), _remedy(backend.name, reason))


def _plain(limits: SandboxLimits) -> SandboxLimits:
    return limits.model_copy(update={"binds": (), "network": "none"})


async def _read(process: SandboxProcess) -> str:
    """Returns the output of the script up to its wait or its end."""
    output = bytearray()
    async for part in process.stdout:
        output += part
        if _END_LINE in output or len(output) > canaries.MAX_OUTPUT_BYTES:
            break
    return output.decode(errors="replace")


async def _ended(mark: str) -> SelfCheck:
    """Checks that all processes ended, also those that left the session of the script."""
    remaining: list[canaries.ProcessView] = []
    for _ in range(100):
        remaining = await anyio.to_thread.run_sync(canaries.processes, mark)
        if not remaining:
            return SelfCheck("ends-whole", ok=True)
        await anyio.sleep(0.05)
    return SelfCheck("ends-whole", ok=False, detail=f"{len(remaining)} processes remain")


def _remedy(name: str, reason: str) -> str:
    if not reason or name != "bubblewrap":
        return reason
    return (
        f"{reason} Bubblewrap needs user namespaces: allow them (kernel.unprivileged_userns_clone,"
        " user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns), or configure"
        " docker or podman."
    )
