"""`chat.retry`: runs the last message of a conversation again after its run failed."""

from typing import Final

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.model.run import AdmissionStatus
from skerry.sessions.failed_message import NOTHING_TO_RETRY, as_asked_by, to_retry


class RetryParams(Params):
    """Parameters of `chat.retry`."""

    session_key: Name
    agent_id: Name | None = None


async def chat_retry(call: Call, params: RetryParams) -> Json:
    """Starts the run; a started run is `in_flight`."""
    context, key = call.context, call.session_key(params.session_key, params.agent_id)
    request = await context.store.read(
        lambda reader: to_retry(reader, key, lambda text: context.commands.match(text) is not None)
    )
    if request is None:
        raise RefusedError(NOTHING_TO_RETRY, details={"code": "NOTHING_TO_RETRY"})
    admission = await context.dispatcher.submit(as_asked_by(request, call.scopes))
    begun = admission.status is AdmissionStatus.ACCEPTED
    return {"runId": request.run_id, "status": "started" if begun else "in_flight"}


METHODS: Final = (Method("chat.retry", RetryParams, chat_retry),)
