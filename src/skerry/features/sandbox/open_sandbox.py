"""Opens the sandboxes of an installation, for the gateway and for commands without one."""

from skerry.config.sandbox import SandboxConfig
from skerry.features.sandbox.bubblewrap import Bubblewrap
from skerry.features.sandbox.containers import Containers
from skerry.features.sandbox.sandbox_holder import Backend, Sandboxes
from skerry.features.sandbox.selftest import test
from skerry.ports.sandbox import SelfTest
from skerry.sdk.slots import SandboxHost


def open_sandbox(host: SandboxHost) -> Sandboxes:
    """Returns the sandboxes, with the backends in the order in which `auto` tries them."""

    async def tested(sandboxes: Sandboxes, backend: Backend, settings: SandboxConfig) -> SelfTest:
        return await test(sandboxes, backend, settings, host.config())

    state = host.config().state_dir.resolve()
    containers = [Containers(name, host.environ, state) for name in ("docker", "podman")]
    return Sandboxes(host, [*containers, Bubblewrap(host.environ)], tested)
