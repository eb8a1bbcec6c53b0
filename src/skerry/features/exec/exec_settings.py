"""Reads the rules for an agent's commands from the configuration."""

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
    """Returns the node's id or name; None means the only connected node."""
    return _of_agent(config, agent).node or config.tools.exec.node


def rules_of(
    config: Config,
    agent: AgentId,
    *,
    host: str,
    security: Security | None = None,
    ask: Ask | None = None,
    patterns: tuple[str, ...] = (),
) -> ExecRules:
    """Returns the rules for a command.

    Args:
        config: The configuration.
        agent: The agent that runs it.
        host: `sandbox`, `gateway` or `node`; each has its own default security.
        security: Security that the call requests; it can only be stricter than the configured one.
        ask: Ask mode that the call requests; it can only be more cautious.
        patterns: Additional patterns, such as those that a person allowed.
    """
    of_agent, common = _of_agent(config, agent), config.tools.exec
    allowlist = common.allowlist if of_agent.allowlist is None else of_agent.allowlist
    bins = common.safe_bins if of_agent.safe_bins is None else of_agent.safe_bins
    unset: Security = "full" if host == "sandbox" else "allowlist"
    configured = strictest_security((common.security, of_agent.security), unset)
    configured_ask = most_cautious_ask((common.ask, of_agent.ask))
    return ExecRules(
        strictest_security((configured, security), configured),
        most_cautious_ask((configured_ask, ask)),
        (*(allowlist or ()), *patterns),
        safe_bins.DEFAULT if bins is None else bins,
    )


def _of_agent(config: Config, agent: AgentId) -> AgentExec:
    agent_config = config.agents.by_id.get(agent)
    return _NONE if agent_config is None or agent_config.tools is None else agent_config.tools.exec
