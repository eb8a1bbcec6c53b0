"""Protocol of a tool."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from skerry.infra.rooted_fs import EscapeError, RootedFolder
from skerry.model.caller import Caller
from skerry.model.memory import KnownMessages
from skerry.model.origin import Origin
from skerry.model.recall import SearchResults
from skerry.model.run import RunRequest
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.decide import NO_LAYERS, Actor, Decision, Request, decide
from skerry.policy.effect import ToolEffect
from skerry.policy.file_gate import FileGate
from skerry.policy.file_kinds import LASTING, FileSubject
from skerry.policy.tool_policy import ToolPolicy

GATEWAY: Final = "gateway"


class Recall(Protocol):
    """Search in the transcript of the conversation in which a tool runs."""

    async def search(self, query: str, *, limit: int, other_conversations: bool) -> SearchResults:
        """Returns at most `limit` entries with words of the query, without those of this run.

        `other_conversations` includes the owner's other conversations if this one is the owner's.
        """
        ...


class ApprovalSubject(Struct, frozen=True):
    """Description of a call for the person who approves it, and the binding of the approval."""

    command: str
    """Text that the person reads, such as the command line."""
    argv: tuple[str, ...] | None = None
    """The words of the command; None if the call is no single command."""
    host: str = ""
    """Machine on which the call has its effect: `sandbox`, `gateway` or `node`, or empty."""
    cwd: str = ""
    """Working directory of the command, or empty."""
    env_keys: tuple[str, ...] = ()
    """Names of the environment variables that the call sets."""
    binding: bytes = b""
    """Digest of argv, directory, environment, agent, session and the content of scripts. The call
    begins only if its digest is still the same."""


class Assessment(Struct, frozen=True):
    """Decision of a gate on one call with its final arguments."""

    effect: ToolEffect
    rule: str
    """Name of the rule that decided."""
    reason: str = ""
    subject: ApprovalSubject | None = None
    """None for a tool that does not describe its calls: the person reads name and arguments."""
    patterns: tuple[str, ...] = ()
    """Patterns that "allow always" adds to the allowlist; empty if that is not offered."""


def ignore_progress(_: ToolResult) -> None:
    """Ignores a progress report, if no client follows the call."""


class ToolContext(Struct, frozen=True):
    """Resources of a tool call: the workspace, opened by descriptor, and the state of its run."""

    workspace: RootedFolder
    recall: Recall | None = None
    """Search in the conversation; None if the call belongs to no conversation."""
    caller: Caller | None = None
    """Caller and conversation; None if the call has no caller: no data of the owner is opened."""
    taint: frozenset[Origin] = frozenset()
    """Origins of the text in the model's context that the owner did not write, such as `web`."""
    context_messages: KnownMessages | None = None
    """Messages in the model's context; None if there are none."""
    run_id: str = ""
    """Id of the run that makes the call; empty without a run."""
    assessment: Assessment | None = None
    """The assessment that allowed the call; effect `ask` means that a person approved it."""
    progress: Callable[[ToolResult], None] = ignore_progress
    """Shows clients the output of the call so far: each report replaces the earlier one.

    Call it in the event loop. Reports may be dropped, and no model reads them."""

    request: RunRequest | None = None
    """Request of the run that makes the call; None without a run. A later message about the call
    gets the rights and the address of the request."""

    @property
    def actor(self) -> Actor:
        """Returns the caller as the policy sees it."""
        return Actor.of(self.caller, self.taint, is_approved=self.is_approved)

    @property
    def is_approved(self) -> bool:
        """Returns whether a person approved the call."""
        return self.assessment is not None and self.assessment.effect is ToolEffect.ASK

    def approved(self, assessment: "Assessment") -> "ToolContext":
        """Returns the context of a call that an assessment allowed; its file rules change too."""
        context = replace(self, assessment=assessment)
        rules = self.workspace.rules
        if isinstance(rules, FileGate) and context.is_approved:
            gate = replace(rules, actor=replace(rules.actor, is_approved=True))
            context = replace(context, workspace=replace(self.workspace, rules=gate))
        return context


class Tool(Protocol):
    """One function that a model may call.

    A tool may have `async def assess(arguments, context) -> Assessment`, which is awaited before
    each call; without it the policy alone decides.

    A tool that runs commands has `async def source(arguments, context) -> Origin`, which returns
    the author of the text that the call may return. The result and the files that the call changed
    get this origin.
    """

    @property
    def spec(self) -> ToolSpec:
        """Returns the description of the tool for the model."""
        ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Checks the arguments and makes the call.

        Raises:
            ToolError: the call failed; the message tells the model what to do instead.
        """
        ...


class ToolSource(Protocol):
    """Tools that may change while the gateway runs, such as those of other programs."""

    is_active: bool
    """True while the configuration has such tools; otherwise nothing else is called."""

    @property
    def tools(self) -> Mapping[str, Tool]:
        """Returns the present tools by name. It is called for each request, so it must be cheap."""
        ...

    @property
    def problems(self) -> Sequence[str]:
        """Returns the reasons why tools are not offered; empty without one."""
        ...

    async def prepare(self, caller: Caller) -> None:
        """Makes the tools for a run of the caller ready; waits for a limited time at most."""
        ...


def reads_only(tool: Tool) -> bool:
    """Returns whether the tool declares that its calls have no effect and may be repeated.

    A tool without `reads_only` has effects.
    """
    return getattr(tool, "reads_only", False) is True


def verb_of(tool: Tool) -> Verb | None:
    """Returns the effect that a tool declares as `verb`; `use` is no effect beyond the call.

    Every built-in tool declares it. Only the owner may use the tools of the memory, whatever the
    configuration grants.
    """
    verb = getattr(tool, "verb", None)
    return verb if isinstance(verb, Verb) else None


def speaks_itself(tool: Tool) -> bool:
    """Returns whether the errors of the tool have only text of the gateway and of the call.

    The tool declares it with `own_errors`. Any other error may repeat text of other people.
    """
    return getattr(tool, "own_errors", False) is True and not plugin_of(tool)


def plugin_of(tool: Tool) -> str:
    """Returns the id of the plugin that registered the tool; empty for a built-in tool."""
    plugin = getattr(tool, "plugin", "")
    return plugin if isinstance(plugin, str) else ""


async def assess(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Assessment:
    """Returns the decision of the tool's gate on a call; a tool without a gate allows it.

    Raises:
        ToolError: the arguments are not valid.
        ValidationError: the arguments are not valid.
        TypeError: the gate returned no `Assessment`.
    """
    gate = getattr(tool, "assess", None)
    if gate is None:
        return Assessment(ToolEffect.ALLOW, "no-gate")
    assessment = await gate(arguments, context)
    if not isinstance(assessment, Assessment):
        raise TypeError(f"assess returned {type(assessment).__name__}, not an Assessment")
    return assessment


async def source(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Origin:
    """Returns the origin of the text that a call may return or write, by `source` of the tool.

    It is `tool`, which means any author, for a tool without `source`.
    """
    ask = getattr(tool, "source", None)
    origin = await ask(arguments, context) if ask is not None else Origin.TOOL
    return origin if isinstance(origin, Origin) else Origin.TOOL


def use_of(tool: Tool, actor: Actor, layers: ToolPolicy = NO_LAYERS) -> Request:
    """Returns the policy request whether the actor may use the tool."""
    name, verb = tool.spec.name, verb_of(tool)
    return Request(actor, Verb.USE, name, effect=verb, tools=layers, plugin=plugin_of(tool))


def call_of(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, layers: ToolPolicy
) -> Request:
    """Returns the policy request whether a call with these arguments may be made."""
    actor = context.actor
    use = use_of(tool, actor, layers)
    asks_for_files = actor.is_tainted and actor.is_owner  # others may not write them at all
    host = arguments.get("host")
    if arguments.get("elevated"):  # any value that a tool could take as true
        host = GATEWAY
    return replace(
        use,
        is_call=True,
        reads=reads_only(tool) or _call_reads(tool, arguments),
        host=host if isinstance(host, str) else "",
        file=_kept_file(tool, arguments, context) if asks_for_files else None,
    )


def _call_reads(tool: Tool, arguments: dict[str, Any]) -> bool:
    """Returns whether a built-in tool says with `reads(arguments)` that a call has no effect."""
    reads: Callable[[dict[str, Any]], bool] | None = getattr(tool, "reads", None)
    return reads is not None and not plugin_of(tool) and reads(arguments) is True


def _kept_file(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> FileSubject | None:
    """Returns the first file that the call would write and that later runs read; None without one.

    A tool lists the files of a call with `writes(arguments)`. A path that cannot be opened is
    skipped: the tool reports it, and the gate of the file decides again before the file is written.
    """
    writes: Callable[[dict[str, Any]], Iterable[str]] | None = getattr(tool, "writes", None)
    gate = context.workspace.rules
    if writes is None or not isinstance(gate, FileGate):
        return None
    for path in writes(arguments):
        with suppress(EscapeError, OSError):
            protected = gate.subject(context.workspace.target(path))
            if protected.kind in LASTING:
                return protected
    return None


def permission(tool: Tool, caller: Caller | None, request: Request) -> Decision:
    """Returns the decision of the policy, then that of the tool's `is_offered(caller)`."""
    decision = decide(request)
    ask: Callable[[Caller], bool] | None = getattr(tool, "is_offered", None)
    if decision.effect is ToolEffect.DENY or ask is None:
        return decision
    if caller is None or not ask(caller):
        return Decision(allowed=False, rule="not-offered", reason="the run is not offered it")
    return decision


def offered(tools: Iterable[Tool], caller: Caller, layers: ToolPolicy = NO_LAYERS) -> list[Tool]:
    """Returns the tools that are offered to a run of `caller`, in their order.

    The policy decides first, then `is_offered` of each permitted tool.
    """
    return serving(permitted(tools, caller, layers), caller)


def permitted(tools: Iterable[Tool], caller: Caller, layers: ToolPolicy) -> list[Tool]:
    """Returns the tools that the policy permits to a run of `caller`, in their order.

    Without a grant only the owner gets tools; each layer of the configuration may remove some.
    """
    actor = Actor.of(caller)
    return [tool for tool in tools if decide(use_of(tool, actor, layers)).allowed]


def serving(tools: Iterable[Tool], caller: Caller) -> list[Tool]:
    """Returns the tools that serve the caller; a tool may decide with `is_offered(caller)`.

    The decision of a built-in tool must depend on the caller and the configuration only, because
    `runtime.toolbox` caches it. A function that several tools share is called once.
    """
    serving_tools: list[Tool] = []
    answers: dict[Callable[[Caller], bool], bool] = {}
    for tool in tools:
        ask: Callable[[Caller], bool] | None = getattr(tool, "is_offered", None)
        if ask is not None and ask not in answers:
            answers[ask] = bool(ask(caller))
        if ask is None or answers[ask]:
            serving_tools.append(tool)
    return serving_tools
