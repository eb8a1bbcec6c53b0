"""Reads from the configuration by which rules the commands of an agent are decided."""

from skerry.config.exec import AgentExec, Ask, Security
from skerry.config.root import Config
from skerry.features.exec import safe_bins
from skerry.features.exec.command_check import ExecRules
from skerry.features.exec.modes import most_cautious_ask, strictest_security
from skerry.model.ids import AgentId

_NONE = AgentExec.model_construct()


def host_of(config: Config, agent: AgentId) -> str:
    """Returns the machine on which the commands of the agent run."""
    return _of_agent(config, agent).host or config.tools.exec.host


def node_of(config: Config, agent: AgentId) -> str | None:
    """Returns the id or name of the node that runs the agent's commands; None is the only one."""
    return _of_agent(config, agent).node or config.tools.exec.node


def rules_of(
    config: Config,
    agent: AgentId,
    *,
    host: str,
    security: Security | None = None,
    ask: Ask | None = None,
    more: tuple[str, ...] = (),
) -> ExecRules:
    """Returns the rules for a command.

    Args:
        config: The configuration.
        agent: The agent that runs it.
        host: `sandbox`, `gateway` or `node`; each has its own security where none is set.
        security: Security that the call asks for; it can only make it stricter.
        ask: The same of asking.
        more: Patterns beside those of the configuration, such as those a person allowed.
    """
    own, common = _of_agent(config, agent), config.tools.exec
    allowlist = common.allowlist if own.allowlist is None else own.allowlist
    bins = common.safe_bins if own.safe_bins is None else own.safe_bins
    unset: Security = "full" if host == "sandbox" else "allowlist"
    configured = strictest_security((common.security, own.security), unset)
    asked = most_cautious_ask((common.ask, own.ask))
    return ExecRules(
        strictest_security((configured, security), configured),
        most_cautious_ask((asked, ask)),
        (*(allowlist or ()), *more),
        safe_bins.DEFAULT if bins is None else bins,
    )


def _of_agent(config: Config, agent: AgentId) -> AgentExec:
    own = config.agents.by_id.get(agent)
    return _NONE if own is None or own.tools is None else own.tools.exec
