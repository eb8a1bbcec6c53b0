"""The tool `canvas`: the owner's agent shows pages on paired devices."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import quote, urlsplit

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from skerry.features.nodes.calls import LONGEST_MS, TIMEOUT_MS, NodeCommand, find, run_on
from skerry.features.nodes.canvas_http import FOLDER, INDEX, TYPES, read
from skerry.features.nodes.command_rules import ruling
from skerry.features.nodes.config import CanvasHostConfig, NodesConfig
from skerry.features.nodes.node_result import converted
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.ids import AgentId
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import ADMIN, Verb
from skerry.policy.effect import ToolEffect
from skerry.ports.tool import Assessment, ToolContext
from skerry.sdk.arguments import named
from skerry.sdk.tool_host import ToolHost

_ALIASES: Final = {
    "nodeId": "node",
    "node_id": "node",
    "target": "url",
    "java_script": "javaScript",
    "javascript": "javaScript",
    "outputFormat": "format",
    "max_width": "maxWidth",
    "timeout_ms": "timeoutMs",
}
_SHOWS: Final = frozenset({"present", "navigate"})
_SENDS_NOTHING: Final = frozenset({"hide", "snapshot"})
_WEB: Final = frozenset({"http", "https"})
_SAFE: Final = "/?&=%+,:;"


class CanvasToolParams(BaseModel):
    """Parameters of `canvas`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Literal["present", "hide", "navigate", "eval", "snapshot"]
    node: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="Id or name of the node."
    )
    url: Annotated[str, Field(max_length=4096)] | None = Field(
        default=None,
        description=f"For present and navigate: a file in {FOLDER}/, or an address.",
    )
    javaScript: Annotated[str, Field(min_length=1, max_length=65_536)] | None = (  # noqa: N815 - OpenClaw's name
        Field(default=None, description="For eval.")
    )
    x: float | None = None
    y: float | None = None
    width: float | None = Field(default=None, gt=0)
    height: float | None = Field(default=None, gt=0)
    format: Literal["png", "jpg", "jpeg"] = "jpeg"
    maxWidth: int | None = Field(default=None, ge=1, le=4000)  # noqa: N815 - OpenClaw's name
    timeoutMs: int = Field(  # noqa: N815 - OpenClaw's name
        default=TIMEOUT_MS, ge=1, le=LONGEST_MS
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.action == "eval" and self.javaScript is None:
            message = "javaScript required: the code to evaluate in the page"
            raise ValueError(message)
        if self.action == "navigate" and not self.url:
            message = f"url required: a file in {FOLDER}/, or an address"
            raise ValueError(message)
        return self

    @property
    def is_web(self) -> bool:
        """Returns whether the page is an address and not a file of the workspace."""
        return self.action in _SHOWS and bool(urlsplit(self.url or "").scheme)

    @property
    def is_page(self) -> bool:
        """Returns whether the page is a file of the workspace."""
        return self.action in _SHOWS and not self.is_web

    def sent(self) -> dict[str, Any]:
        """Returns the parameters of the command of the node."""
        match self.action:
            case "present":
                sides = {"x": self.x, "y": self.y, "width": self.width, "height": self.height}
                placement = {key: side for key, side in sides.items() if side is not None}
                return {"url": self.url or INDEX} | ({"placement": placement} if placement else {})
            case "navigate":
                return {"url": self.url}
            case "eval":
                return {"javaScript": self.javaScript}
            case "snapshot":
                kind = "png" if self.format == "png" else "jpeg"
                limit = {} if self.maxWidth is None else {"maxWidth": self.maxWidth}
                return {"format": kind, **limit}
            case "hide":
                return {}


class CanvasTool:
    """Shows pages on paired devices; only offered when the configuration names it."""

    verb: ClassVar[Verb] = Verb.USE
    spec: ClassVar[ToolSpec] = ToolSpec(
        "canvas",
        f"Show pages of {FOLDER}/ of the workspace on your owner's devices, and see them.",
        CanvasToolParams.model_json_schema(),
    )

    def __init__(self, host: ToolHost) -> None:
        self._host = host

    def is_offered(self, caller: Caller) -> bool:
        """Returns true when the configuration enables the tool for the agent."""
        return self._host.is_chosen(caller.key.agent, self.spec.name)

    def reads(self, arguments: dict[str, Any]) -> bool:
        """Returns true for a call that shows and runs nothing; false if it is not valid."""
        try:
            params = _parsed(arguments)
        except (ToolError, ValidationError):
            return False
        return params.action in _SENDS_NOTHING

    async def assess(self, arguments: dict[str, Any], context: ToolContext) -> Assessment:
        """Returns whether the call may run, or needs an approval; another site always needs it.

        Raises:
            ToolError: the node is not connected, or the page cannot be shown.
        """
        params = _parsed(arguments)
        if not context.actor.acts_for_owner:
            reason = "only the owner's conversations may use nodes"
            return Assessment(ToolEffect.DENY, "nodes-owner", reason)
        command = f"canvas.{params.action}"
        decision = ruling(self._host.config().gateway.section(NodesConfig), command)
        if decision.effect is ToolEffect.DENY:
            return Assessment(decision.effect, decision.rule, decision.reason)
        subject = (await self._command(params)).subject()
        if params.is_page:
            await self._page(params, context.caller)
        if params.is_web and decision.effect is ToolEffect.ALLOW:
            reason = "it opens a web site on the node, which gets the address"
            return Assessment(ToolEffect.ASK, "canvas-address", reason, subject)
        return Assessment(decision.effect, decision.rule, decision.reason, subject)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the response of the node.

        Raises:
            ToolError: the node is not connected, or failed.
        """
        params = _parsed(arguments)
        if not context.actor.acts_for_owner:
            raise ToolError("Only the owner's conversations may use nodes.")
        request = await self._command(params)
        if params.is_page:
            page = await self._page(params, context.caller)
            request = await self._addressed(request, page)
        payload = await run_on(self._host.call, request, context)
        result = await anyio.to_thread.run_sync(converted, payload)
        details = {"node": request.node.id, "command": request.command}
        return ToolResult(result.text, blocks=tuple(result.pictures), details=details)

    async def _command(self, params: CanvasToolParams) -> NodeCommand:
        command = f"canvas.{params.action}"
        node = await find(self._host.call, params.node, command)
        return NodeCommand(node, command, params.sent(), params.timeoutMs)

    async def _page(self, params: CanvasToolParams, caller: Caller | None) -> "Page":
        """Returns the page, which exists.

        Raises:
            ToolError: it is no file that nodes get, or no pages are served.
        """
        config = self._host.config()
        if caller is None or not config.section(CanvasHostConfig).enabled:
            raise ToolError("canvasHost.enabled is false: no pages are served. Ask your owner.")
        page = Page.of(params.url or "", caller.key.agent)
        if await anyio.to_thread.run_sync(read, config, page.agent, page.path) is None:
            raise ToolError(
                f"{FOLDER}/{page.path or INDEX} cannot be shown. It must be a plain file of the"
                f" workspace with one of the endings {' '.join(sorted(TYPES))}."
            )
        return page

    async def _addressed(self, request: NodeCommand, page: "Page") -> NodeCommand:
        """Returns the command with the address at which only this node gets the page."""
        wanted = {"nodeId": request.node.id, "agentId": page.agent}
        base = (await self._host.call("node.canvas.url", wanted, (ADMIN,)))["url"]
        return replace(request, address=f"{base}{quote(page.path)}{page.suffix}")


class Page(Struct, frozen=True):
    """A file of `canvas/` of an agent's workspace."""

    agent: AgentId
    path: str
    suffix: str
    """Query and fragment of its address."""

    @classmethod
    def of(cls, url: str, agent: AgentId) -> "Page":
        """Returns the page of a path relative to the workspace, or to its `canvas/`."""
        parts = urlsplit(url)
        path = parts.path.removeprefix("/").removeprefix(f"{FOLDER}/")
        query = f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
        fragment = f"#{quote(parts.fragment, safe=_SAFE)}" if parts.fragment else ""
        return cls(agent, path, query + fragment)


def _parsed(arguments: dict[str, Any]) -> CanvasToolParams:
    """Returns the checked parameters.

    Raises:
        ToolError: the address is not one of the web.
    """
    params = CanvasToolParams.model_validate(named(arguments, _ALIASES, ("action",)))
    try:
        scheme = urlsplit(params.url or "").scheme
    except ValueError as error:
        raise ToolError(f"url is no address: {error}. Pass a file in {FOLDER}/.") from error
    if (scheme and scheme not in _WEB) or (params.url or "").startswith("//"):
        raise ToolError(f"{scheme or '//'} is not shown. Pass a file in {FOLDER}/, or http(s).")
    return params
