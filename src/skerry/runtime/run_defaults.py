"""What holds for one run: its own word, else that of its session, else of its agent."""

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
    """What is settled before the loop of a run starts."""

    wanted: Wanted
    """The model that is asked for, and what decides with which credential."""
    thinking: ThinkingLevel
    """How much the model is to think, if it can."""
    asked: bool
    """Whether somebody asked for just that much, so that less is to be told."""
    caller: Caller
    """Who asks, and where."""


def run_defaults(active: ActiveRun, config: Config) -> RunDefaults:
    """Return what holds for a run."""
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
