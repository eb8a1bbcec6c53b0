"""Settles what holds for one run before its loop starts: one frozen context for all its parts."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from skerry.commands.table import Command
from skerry.config.root import Config
from skerry.hooks.events import WEBCHAT, RunContext
from skerry.lanes.running import ActiveRun
from skerry.model.caller import Caller
from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel
from skerry.ports.tries import Wanted
from skerry.replies.shaping import Show
from skerry.runtime.caller_context import caller_of, run_context
from skerry.runtime.failover import Failover
from skerry.runtime.media_marks import shown_file
from skerry.runtime.services import Runtime


class RunPlan(Struct, frozen=True):
    """The context of one run: its own word decides, else that of its session, else of its agent."""

    runtime: Runtime
    config: Config
    """The configuration as it was when the run started; a later change is for later runs."""
    active: ActiveRun
    settings: SessionSettings
    command: tuple[Command, str] | None
    """The command that the message is, and its arguments; it is answered without a model."""
    workspace: Path
    wanted: Wanted
    """The model that is asked for, and what decides with which credential."""
    thinking: ThinkingLevel
    """Effort of thinking that the model is asked for, if it can think."""
    thinking_asked: bool
    """True if somebody asked for just that level, so that a lower one is reported."""
    caller: Caller
    """The person or program that asks, and where."""
    hooks: RunContext
    """The run as hooks see it."""
    show: Show
    """Says what an answer shows of a file that the model names."""

    def variables(self, failover: Failover) -> Mapping[str, str]:
        """Returns the variables that the prefix of an answer may name."""
        agent_id = self.caller.key.agent
        agent = self.config.agents.get(agent_id)
        identity = agent.identity if agent else None
        thinking = self.active.request.thinking or self.settings.thinking_level
        return {
            "model": failover.model,
            "provider": failover.provider,
            "thinkingLevel": str(thinking or self.config.thinking(agent_id) or ""),
            "identity.name": (identity and identity.name) or (agent and agent.name) or agent_id,
        }


def run_plan(runtime: Runtime, config: Config, active: ActiveRun) -> RunPlan:
    """Returns the plan of a run that has entered its session."""
    settings, request = active.settings or SessionSettings(), active.request
    agent = request.key.agent
    asked = request.thinking or settings.thinking_level
    workspace, caller = config.workspace(agent), caller_of(request)
    return RunPlan(
        runtime=runtime,
        config=config,
        active=active,
        settings=settings,
        command=runtime.commands.given(request),
        workspace=workspace,
        wanted=Wanted(
            settings.model or config.primary_model(agent),
            agent,
            active.session_id,
            request.run_id,
            request.purpose,
            request.reply_to.channel if request.reply_to else WEBCHAT,
        ),
        thinking=asked or config.thinking(agent) or ThinkingLevel.LOW,
        thinking_asked=asked is not None,
        caller=caller,
        hooks=run_context(request, active.session_id, workspace, caller),
        show=partial(shown_file, config, agent),
    )
