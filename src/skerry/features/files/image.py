"""The tool `image`: answers a question about pictures of the workspace."""

from functools import partial
from typing import Any, Final

import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field

from skerry.features.files.image_model import answered, question
from skerry.features.files.parameters import explained
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.ids import MAIN_AGENT
from skerry.model.message import Content, ImageBlock
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.file_gate import FileGate
from skerry.ports.tool import ToolContext
from skerry.runtime.late import pictures
from skerry.sdk.arguments import named
from skerry.sdk.tool_host import ToolHost

MAX_IMAGES: Final = 20
MAX_CHARS: Final = 8 * 1024 * 1024
"""Maximum total size of the pictures, in characters of base64."""
_PATH: Final = 1024


class ImageParams(BaseModel):
    """Parameters of `image`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: str = Field(default="Describe the picture.", max_length=4000)
    image: str | None = Field(default=None, max_length=_PATH)
    images: tuple[str, ...] = Field(default=(), max_length=MAX_IMAGES)
    maxImages: int = Field(default=MAX_IMAGES, ge=1, le=MAX_IMAGES)  # noqa: N815 - OpenClaw's name


class Image:
    """Asks the configured image model, or else adds the pictures to the conversation.

    A model of the conversation without image input receives their descriptions.
    """

    reads_only = True
    verb = Verb.READ
    spec = ToolSpec("image", "See pictures of the workspace.", ImageParams.model_json_schema())

    def __init__(self, host: ToolHost) -> None:
        self._host = host

    def is_offered(self, caller: Caller) -> bool:
        """Returns true when the configuration enables the tool for the agent."""
        return self._host.is_chosen(caller.key.agent, self.spec.name)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the answer of the image model, or the question with the pictures."""
        aliases = {"path": "image", "file_path": "image", "max_images": "maxImages"}
        params = ImageParams.model_validate(named(arguments, aliases))
        paths = tuple(dict.fromkeys((*([params.image] if params.image else ()), *params.images)))
        if not paths:
            raise ToolError("image required")
        if len(paths) > params.maxImages:
            raise ToolError(
                f"{len(paths)} pictures exceed maxImages={params.maxImages}. Pass fewer."
            )
        result = await anyio.to_thread.run_sync(partial(_result, params.prompt, paths, context))
        if (runs := self._host.internal_runs) is None:
            return result
        choice = self._host.config().agents.defaults.image_model
        if choice.primary is None:
            return result
        pictures = [block for block in result.blocks if isinstance(block, ImageBlock)]
        message = question(result.text, pictures, self._host.clock.now_ms())
        agent = context.caller.key.agent if context.caller else MAIN_AGENT
        asker = (agent, context.run_id)
        model, text = await answered(runs.dispatch.runtime, choice, asker, message)
        return ToolResult(
            text, origin=result.origin, details={"model": model, "images": len(paths)}
        )


def _result(prompt: str, paths: tuple[str, ...], context: ToolContext) -> ToolResult:
    lines, blocks, size = [prompt], list[Content](), 0
    origins: set[Origin] = set()
    for path in paths:
        with explained("see", path), context.workspace.look(path) as (file, opened):
            gate = context.workspace.rules
            origins.add(
                gate.origin(opened, file, "") if isinstance(gate, FileGate) else Origin.TOOL
            )
            file.seek(0)
            block, described = pictures.picture(path, file)
        size += len(block.data)
        if size > MAX_CHARS:
            raise ToolError("The pictures are too large together. Pass fewer at once.")
        lines.append(described)
        blocks.append(block)
    worst = next(
        (candidate for candidate in (Origin.WEB, Origin.TOOL) if candidate in origins),
        Origin.MEMORY,
    )
    return ToolResult("\n".join(lines), origin=worst, blocks=tuple(blocks))
