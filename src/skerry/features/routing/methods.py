"""Method that explains which agent answers a conversation."""

from typing import Annotated, Final

from pydantic import Field

from skerry.features.routing.explain import RoutingQuestion, explain
from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError


class ExplainParams(Params):
    """Parameters of `routing.explain`."""

    channel: Name
    peer: Name
    account_id: Name | None = None
    parent: Name | None = None
    thread_id: Name | None = None
    guild_id: Name | None = None
    roles: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    team_id: Name | None = None
    sender_id: Name | None = None


async def routing_explain(call: Call, params: ExplainParams) -> Json:
    """Returns the agent that answers, the session key and the kind of binding that matched."""
    question = RoutingQuestion(
        params.channel,
        params.peer,
        params.account_id or "default",
        params.parent or "",
        params.thread_id or "",
        params.guild_id or "",
        params.roles,
        params.team_id or "",
        params.sender_id or "",
    )
    try:
        return explain(question, call.context.config())
    except ValueError as error:
        raise RefusedError(str(error)) from error


METHODS: Final = (Method("routing.explain", ExplainParams, routing_explain),)
