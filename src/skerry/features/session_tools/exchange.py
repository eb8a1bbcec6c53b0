"""Follows an exchange of two conversations: alternating turns, then an announcement.

After the first answer the conversations take turns, at most
`session.agentToAgent.maxPingPongTurns` times; a reply `REPLY_SKIP` ends the turns. Then the target
conversation may inform its person. Each step is accepted in the unit that stores it, under an id
made of the exchange's, so that it is accepted once even if the process is killed.
"""

import logging
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.features.session_tools import tables
from skerry.features.session_tools.tables import AgentExchange, Stage
from skerry.model.errors import BusyError, SkerryError, StateError
from skerry.model.ids import RunId, SessionKey
from skerry.model.run import Purpose, RunRequest, RunResult
from skerry.policy import fences
from skerry.policy.injection import scan
from skerry.runtime.dispatcher import Dispatch
from skerry.store import Unit, last_routes

logger = logging.getLogger(__name__)

SKIP: Final = "REPLY_SKIP"
MAX_CHARS: Final = 20_000
"""Maximum length of a reply that is passed on, in characters."""
_EDGE: Final = " \t\r\n`*\"'."
_TURN: Final = (
    "This is an exchange between two sessions; no person reads it. Your reply goes to the other"
    f" session. If nothing is left to say, your whole reply is {SKIP}."
)
_ANNOUNCE: Final = (
    "The exchange is over. If the person of this session has to know of it, say so in a few words;"
    " otherwise your whole reply is NO_REPLY."
)


class Follower(Struct, frozen=True):
    """Parts of the gateway with which exchanges are followed."""

    dispatcher: Dispatch

    async def follow(self, exchange: AgentExchange) -> None:
        """Follows an exchange to its end."""
        following: AgentExchange | None = exchange
        while following is not None:
            result = await self.dispatcher.wait(following.run_id, None)
            following = await self._next(following, result)

    async def _next(
        self, exchange: AgentExchange, result: RunResult | None
    ) -> AgentExchange | None:
        """Starts the next step; returns the exchange at that step, or None at its end."""
        reply_text = reply_of(result)
        if exchange.stage is Stage.ANNOUNCE or result is None or result.error is not None:
            await self._end(exchange)
            return None
        limit = self.dispatcher.runtime.config().session.agent_to_agent.max_ping_pong_turns
        is_over = is_skip(reply_text) or exchange.turn >= limit
        if is_over and not reply_text:
            await self._end(exchange)
            return None
        stage, turn = (
            (Stage.ANNOUNCE, exchange.turn) if is_over else (Stage.TURN, exchange.turn + 1)
        )
        step = replace(
            exchange, stage=stage, turn=turn, run_id=RunId(f"{exchange.id}-{stage.value}-{turn}")
        )
        return await self._begin(step, reply_text)

    async def _begin(self, step: AgentExchange, reply_text: str) -> AgentExchange | None:
        route = None
        if step.stage is Stage.ANNOUNCE:
            key = SessionKey.parse(step.target)
            store = self.dispatcher.runtime.store
            route = await store.read(lambda reader: last_routes.of(reader, key))
        request = replace(request_of(step, reply_text), reply_to=route)

        def noted(unit: Unit) -> None:
            tables.put(unit, step)

        self.dispatcher.reach("exchange.before-step")
        try:
            await self.dispatcher.submit(request, noted)
        except (BusyError, StateError):
            raise  # the supervisor restarts this service
        except SkerryError:
            logger.exception("the exchange %s cannot continue", step.id)
            await self._end(step)
            return None
        self.dispatcher.reach("exchange.step")
        return step

    async def _end(self, exchange: AgentExchange) -> None:
        def end(unit: Unit) -> None:
            tables.end(unit, exchange.id)

        await self.dispatcher.runtime.store.write(end)


def reply_of(result: RunResult | None) -> str:
    """Returns the text of a run's reply; empty without a reply."""
    return "" if result is None else "\n\n".join(result.payloads).strip()


def is_skip(reply: str) -> bool:
    """Returns true when a reply ends the turns: only `REPLY_SKIP`, or empty."""
    return reply.strip(_EDGE) in {SKIP, ""}


def speaks(exchange: AgentExchange) -> tuple[str, str]:
    """Returns the session whose turn it is, and the session of the previous turn."""
    is_askers = exchange.stage is Stage.TURN and exchange.turn % 2 == 1
    pair = (exchange.asker, exchange.target)
    return pair if is_askers else (pair[1], pair[0])


def request_of(step: AgentExchange, reply_text: str) -> RunRequest:
    """Returns the request of a step, with the other conversation's reply as tool data."""
    to, sender = speaks(step)
    is_announce = step.stage is Stage.ANNOUNCE
    lines = [f"[Message of session {sender}]"]
    if reply_text and not is_skip(reply_text):
        excerpt = reply_text if len(reply_text) <= MAX_CHARS else reply_text[:MAX_CHARS] + "\n[cut]"
        identity = fences.derived_id(step.run_id, excerpt)
        about = fences.about(scan(excerpt))
        lines.append(fences.fence(excerpt, "session", identity=identity, about=about))
    lines.append(_ANNOUNCE if is_announce else _TURN)
    return replace(
        step.request,
        run_id=step.run_id,
        key=SessionKey.parse(to),
        text="\n".join(lines),
        purpose=Purpose.ANNOUNCE if is_announce else step.request.purpose,
    )
