"""Reports the end of a background command to its agent, with a message that starts a turn."""

import logging

import anyio.to_thread
from msgspec import Struct

from skerry.features.exec.process_session import ProcessSession
from skerry.model.errors import SkerryError
from skerry.model.ids import RunId
from skerry.model.run import Purpose, RunRequest
from skerry.policy import fences
from skerry.policy.injection import scan
from skerry.sdk.tool_host import ToolHost

logger = logging.getLogger(__name__)

TAIL_CHARS = 2000
"""Maximum length of the output in the message, in characters."""
SHOWN_CHARS = 200
"""Maximum length of the command in the message, in characters."""


class Notices(Struct, frozen=True):
    """Sends the messages. Implements `registry.Tell`."""

    host: ToolHost

    async def __call__(self, session: ProcessSession) -> None:
        """Starts a turn, unless the agent received the end, or receives it in a running turn."""
        dispatcher, request = self.host.dispatcher, session.command.request
        if dispatcher is None or request is None:
            return
        if not self.host.config().tools.exec.notify_on_exit:
            return
        for run_id in dispatcher.active(request.key):
            await dispatcher.wait(run_id, None)
        if session.is_told:
            return
        session.is_told = True
        try:
            await dispatcher.submit(await message(session, request))
        except SkerryError as error:
            logger.warning(
                "the agent receives no message about the end of the command %s: %s",
                session.id,
                error,
            )


async def message(session: ProcessSession, request: RunRequest) -> RunRequest:
    """Returns the message about an end, with the rights of the run that started the command."""
    text, ending = session.output.last(TAIL_CHARS).strip(), "It printed nothing."
    if text:
        scanned = await anyio.to_thread.run_sync(scan, text)
        fenced = fences.fence(text, "result", about=fences.about(scanned))
        ending = f"The end of its output:\n{fenced}"
    command = session.command.text[:SHOWN_CHARS]
    return RunRequest(
        RunId(f"command-{session.id}-{session.started_at}"),
        request.key,
        f"The command of session {session.id}, {command!r}, has ended. {session.ending} {ending}",
        reply_to=request.reply_to,
        origin=request.origin,
        purpose=Purpose.COMMAND,
        rights=request.rights,
        scopes=request.scopes,
        sender=request.sender,
        behalf=request.behalf,
        text_origin=session.words,
    )
