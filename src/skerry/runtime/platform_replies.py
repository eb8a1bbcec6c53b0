"""Delivery of a run's answers to a chat platform; the sender is loaded only then."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from skerry.config.root import Config
from skerry.hooks.events import RunContext
from skerry.lanes.running import ActiveRun
from skerry.model.session import SessionSettings
from skerry.replies.shaping import Show
from skerry.runtime.services import Runtime
from skerry.sessions.sending import sends_to

if TYPE_CHECKING:
    from skerry.runtime.block_streaming import Replying


def answers(
    runtime: Runtime,
    config: Config,
    active: ActiveRun,
    context: RunContext,
    show: Show,
    variables: Callable[[], Mapping[str, str]],
) -> "Replying | None":
    """Returns the sender of the run's answers to a platform; None if none are sent."""
    own, request = active.settings or SessionSettings(), active.request
    to = sends_to(config.session.send_policy, own, request.key, request.reply_to)
    if to is None and request.reply_to is not None:
        given = runtime.commands.given(request)
        if given is not None and given[0].breaks_silence and given[0].permits(request.may):
            to = request.reply_to
    if to is None:
        return None
    # Imported here, with all that shapes messages: not every gateway talks to a platform.
    from skerry.runtime.block_streaming import replying  # noqa: PLC0415

    return replying(runtime, config, active, (context, to), show, variables)
