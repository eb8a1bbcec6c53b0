"""Files of a workspace for the method `send`."""

from skerry.config.protected import gate
from skerry.gateway.method import Call, RefusedError
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.ids import agent_id
from skerry.model.inbound import ReplyTo
from skerry.model.outbound import OutboundMedia
from skerry.model.undelivered import MediaError
from skerry.policy.access import ADMIN
from skerry.policy.decide import allows
from skerry.ports.channel import capabilities
from skerry.runtime.media_out import Outbox


async def copied(
    call: Call, to: ReplyTo, reference: str, agent: str | None, *, voice: bool
) -> OutboundMedia:
    """Returns the copy of a file of an agent's workspace.

    Raises:
        RefusedError: the client may not administrate, the platform accepts no files, or the file
        may
            not be sent.
    """
    if not allows(call.scopes, ADMIN):
        message = f"Only clients with the scope {ADMIN} may send files."
        raise RefusedError(message, "Ask an agent to send the file.")
    channels = call.context.channels
    adapter = channels.adapter(to.channel, to.account) if channels is not None else None
    if adapter is None or not capabilities(adapter).media_out:
        raise RefusedError(f"{to.channel} accepts no files.", "Send only text.")
    config = call.context.config()
    name = agent_id(agent) if agent else config.agents.default_id
    if name not in config.agents.ids:
        raise RefusedError(f"Unknown agent {agent!r}.", f"Agents: {', '.join(config.agents.ids)}")
    approvals = call.context.approvals
    workspace = RootedFolder(config.workspace(name), gate(config, records=call.context.records))
    redact = approvals.redact if approvals else str
    max_bytes = config.agents.defaults.media_max_mb * 1_000_000
    folder = Outbox(config.state_dir, call.context.clock, max_bytes, redact)
    try:
        return await folder.copied(workspace, reference, voice=voice)
    except MediaError as error:
        message = f"The file {reference!r} is not sent: {error}."
        raise RefusedError(message, "Pass a path below the workspace of the agent.") from error
