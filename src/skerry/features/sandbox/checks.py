"""Check of `skerry doctor` for the sandboxes."""

from skerry.config.root import Config
from skerry.config.sandbox import SandboxConfig
from skerry.features.sandbox import apparmor
from skerry.model.ids import AgentId
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation
from skerry.sdk.slots import SandboxHost, open_sandbox


async def usable(installation: Installation) -> list[Check]:
    """Returns the self-test of each agent's sandbox; agents with the same sandbox share one."""
    config = installation.config
    if config is None:
        return []
    sandbox = open_sandbox(SandboxHost(lambda: config, installation.environ))
    checks: list[Check] = []
    for name, agent in _kinds(config).items():
        if config.sandbox(agent).mode == "off":
            message = f"{name}: the sandbox mode is off, so commands run on this machine."
            remedy = "Set agents.defaults.sandbox.mode to all."
            checks.append(Check("sandbox", Level.WARNING, message, remedy))
            continue
        result = await sandbox.usable(agent)
        if result.usable:
            passed = f"{len(result.checks)} checks of isolation passed"
            apparmor_state = _apparmor(result.backend, config.sandbox(agent))
            message = f"{name}: {result.backend}, {passed}{apparmor_state}"
            checks.append(Check("sandbox", Level.OK, message))
        else:
            message = f"{name}: commands are refused, because no sandbox is usable."
            checks.append(Check("sandbox", Level.WARNING, message, result.remedy))
    return checks


def _apparmor(backend: str, settings: SandboxConfig) -> str:
    """Returns the AppArmor profile of containers, or the notice that the machine has none."""
    if backend == "bubblewrap":
        return ""
    if not apparmor.is_on():
        return "; this machine has no AppArmor"
    name = apparmor.profile(backend, settings.docker.apparmor_profile) or f"that of {backend}"
    return f", and the AppArmor profile {name}"


def _kinds(config: Config) -> dict[str, AgentId]:
    """Returns one agent for each kind of sandbox, by the joined names of its agents."""
    alike: dict[str, list[AgentId]] = {}
    for agent in config.agents.ids:
        alike.setdefault(config.sandbox(agent).model_dump_json(), []).append(agent)
    return {", ".join(agents): agents[0] for agents in alike.values()}
