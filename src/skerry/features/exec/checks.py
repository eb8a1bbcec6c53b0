"""Checks of `skerry doctor` for the commands that agents run."""

from collections.abc import Iterator

from skerry.config.exec import AgentExec
from skerry.features.exec.safe_bins import FILTERS
from skerry.policy.command_patterns import problem
from skerry.ports.checks import Check, Level
from skerry.sdk.features import Installation


async def patterns(installation: Installation) -> Iterator[Check]:
    """Yields a warning for each pattern and safe bin of the configuration without effect."""
    config = installation.config
    if config is None:
        return iter(())
    sections: list[tuple[str, AgentExec]] = [("tools.exec", config.tools.exec)]
    sections += [
        (f"agents.list.{agent.id}.tools.exec", agent.tools.exec)
        for agent in config.agents.by_id.values()
        if agent.tools is not None
    ]
    return iter([check for path, section in sections for check in _section(path, section)])


def _section(path: str, section: AgentExec) -> Iterator[Check]:
    for text in section.allowlist or ():
        if reason := problem(text):
            message = f"The pattern {text!r} matches nothing: {reason}."
            yield Check("commands", Level.WARNING, message, f"change it in {path}.allowlist")
    for name in section.safe_bins or ():
        if name not in FILTERS:
            reason = f"{name} is no safe bin: its options are not in the list of safe ones."
            remedy = f"name it in {path}.allowlist instead; safe bins: {', '.join(FILTERS)}"
            yield Check("commands", Level.WARNING, reason, remedy)
