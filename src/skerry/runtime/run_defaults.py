"""Settings of one run: its own, else those of its session, else of its agent."""

from msgspec import Struct

from skerry.config.root import Config
from skerry.hooks.events import WEBCHAT
from skerry.lanes.running import ActiveRun
from skerry.model.caller import Caller
from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel
from skerry.ports.tries import Wanted
from skerry.runtime.caller_context import caller_of


class RunDefaults(Struct, frozen=True):
    """Settings that are fixed before the loop of a run starts."""

    wanted: Wanted
    """The model that is asked for, and what decides with which credential."""
    thinking: ThinkingLevel
    """Reasoning effort of the model, if it can reason."""
    asked: bool
    """True when that effort was requested explicitly, so that a lower one is to be reported."""
    caller: Caller
    """Caller and conversation."""


def run_defaults(active: ActiveRun, config: Config) -> RunDefaults:
    """Returns the settings of a run."""
    own, request = active.settings or SessionSettings(), active.request
    agent = request.key.agent
    asked = request.thinking or own.thinking_level
    return RunDefaults(
        Wanted(
            own.model or config.primary_model(agent),
            agent,
            active.session_id,
            request.run_id,
            request.purpose,
            request.reply_to.channel if request.reply_to else WEBCHAT,
        ),
        asked or config.thinking(agent) or ThinkingLevel.LOW,
        asked is not None,
        caller_of(request),
    )
