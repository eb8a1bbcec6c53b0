"""The tool `message`: sends a message or a file to the owner on a chat platform."""

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from skerry.features.session_tools.common import ALIASES, HostTool, caller_of, reply
from skerry.model.errors import ToolError
from skerry.model.origin import Origin
from skerry.model.outbound import OutboundMedia
from skerry.model.tool import ToolResult, ToolSpec
from skerry.model.undelivered import MediaError
from skerry.policy.access import Verb
from skerry.policy.decide import Actor
from skerry.ports.tool import ToolContext
from skerry.runtime.media_out import Outbox
from skerry.runtime.run_context import named_file
from skerry.sdk.arguments import named


class MessageParams(BaseModel):
    """Parameters of `message`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Literal["send"] = "send"
    channel: str | None = Field(default=None, max_length=64)
    target: str | None = Field(default=None, max_length=256, description="The owner's id there.")
    message: str = Field(default="", max_length=20_000)
    media: str | None = Field(
        default=None, max_length=4096, description="A file of the workspace to send."
    )
    asVoice: bool = False  # noqa: N815 - OpenClaw's name
    dryRun: bool = False  # noqa: N815 - OpenClaw's name


_ALIASES: Final = {
    **ALIASES,
    "to": "target",
    "text": "message",
    "caption": "message",
    "dry_run": "dryRun",
    "mediaUrl": "media",
    "filePath": "media",
    "path": "media",
    "as_voice": "asVoice",
}


class MessageTool(HostTool):
    """Sends only to the people in `commands.ownerAllowFrom`.

    The message passes through the outbox, so it is sent once, also after a restart.
    """

    verb = Verb.USE
    spec = ToolSpec(
        "message",
        "Send a message or a file to your owner's chat.",
        MessageParams.model_json_schema(),
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns `{ok, channel, target, parts, dryRun}` as JSON."""
        params = MessageParams.model_validate(named(arguments, _ALIASES, ()))
        if not (params.message.strip() or params.media):
            raise ToolError("The message is empty: pass `message`, `media`, or both.")
        if not Actor.of(caller_of(context)).acts_for_owner:
            raise ToolError("Only the owner's conversations may send messages to the owner.")
        channel, person = self._recipient(params)
        answer = {"ok": True, "channel": channel, "target": person, "dryRun": params.dryRun}
        if params.dryRun or self._host.outgoing is None:
            return reply(answer, Origin.MEMORY)
        media = await self._copied(params, context, channel) if params.media else None
        parts = await self._host.outgoing.send(channel, person, params.message, media)
        return reply({**answer, "parts": parts}, Origin.MEMORY)

    async def _copied(
        self, params: MessageParams, context: ToolContext, channel: str
    ) -> OutboundMedia:
        """Returns a copy of the file to send.

        Raises:
            ToolError: the platform accepts no files, or this file may not be sent.
        """
        outgoing, config = self._host.outgoing, self._host.config()
        reference = params.media or ""
        if outgoing is None or not outgoing.takes_files(channel):
            raise ToolError(f"Nothing was sent: {channel} accepts no files. Send only text.")
        max_bytes = config.agents.defaults.media_max_mb * 1_000_000
        folder = Outbox(config.state_dir, self._host.clock, max_bytes, self._host.redact)
        try:
            return await folder.copied(context.workspace, reference, voice=params.asVoice)
        except MediaError as error:
            message = f"Nothing was sent: the file {named_file(reference)} cannot be sent: {error}."
            raise ToolError(message) from error

    def _recipient(self, params: MessageParams) -> tuple[str, str]:
        """Returns the platform and the owner's id there.

        Raises:
            ToolError: the target is not the owner, or no platform of the owner has an account.
        """
        channels = self._host.outgoing.channels if self._host.outgoing else ()
        by_name = {name.lower(): name for name in channels}
        target = (params.target or "").removeprefix(f"{params.channel}:")
        for owner in self._host.config().commands.owner_allow_from:
            channel, _, person = owner.partition(":")
            name = by_name.get(channel.lower())
            if name is None or (params.channel and params.channel.lower() != channel.lower()):
                continue
            if not target or target in {person, owner}:
                return name, person
        raise ToolError(
            "Nothing was sent: the target is not in commands.ownerAllowFrom, or its"
            " platform has no account here"
            f" (accounts: {', '.join(channels) or 'none'}). Answer in this conversation instead."
        )
