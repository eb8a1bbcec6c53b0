"""Protocol of a tool."""

from collections.abc import Callable, Iterable
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
    """Search in the conversation in which a tool runs."""

    async def search(self, query: str, *, limit: int, other_conversations: bool) -> SearchResults:
        """Returns the entries with words of the query, without those of the present run.

        `other_conversations` includes the owner's other conversations if this one is the owner's.
        """
        ...


class ApprovalSubject(Struct, frozen=True):
    """Description of a call for the person who approves it, and what the approval is bound to."""

    command: str
    """Text that the person reads, such as the command line."""
    argv: tuple[str, ...] | None = None
    """The words of the command; None where the call is no single command."""
    host: str = ""
    """Machine of the effect: `sandbox`, `gateway` or `node`; empty where a tool has none."""
    cwd: str = ""
    env_keys: tuple[str, ...] = ()
    """Names of the environment variables that the call sets."""
    binding: bytes = b""
    """Digest of all that the approval is for: argv, directory, environment, agent, session, and
    the content of scripts. The call begins only if it is the same then."""


class Assessment(Struct, frozen=True):
    """Answer of a gate to one call with its final arguments."""

    effect: ToolEffect
    rule: str
    """Name of the rule that decided."""
    reason: str = ""
    subject: ApprovalSubject | None = None
    """None for a tool that does not describe its calls: the person reads name and arguments."""
    patterns: tuple[str, ...] = ()
    """Patterns that "allow always" adds to the allowlist; empty where that is not offered."""


def ignore_progress(_: ToolResult) -> None:
    """Drops a report of progress: nobody follows the call."""


class ToolContext(Struct, frozen=True):
    """Resources of a tool call: the workspace, opened by descriptor, and earlier messages."""

    workspace: RootedFolder
    recall: Recall | None = None
    """None where nobody speaks."""
    caller: Caller | None = None
    """Caller and conversation; None if nobody asks: then nothing of the owner's is opened."""
    taint: frozenset[Origin] = frozenset()
    """Origins of text in the model's context that is not the owner's, such as `web`."""
    context_messages: KnownMessages | None = None
    """Messages in the model's context; None if there are none."""
    run_id: str = ""
    """Id of the run that makes the call; empty where there is none."""
    assessment: Assessment | None = None
    """The assessment by which the call runs; effect `ask` means that a person approved it."""
    progress: Callable[[ToolResult], None] = ignore_progress
    """Shows clients the output of the call so far: each report replaces the one before.

    Called in the event loop. Reports may be dropped, and no model gets them."""

    request: RunRequest | None = None
    """Request of the run that makes the call: a later message about the call takes its rights and
    its way from it. None where there is none."""

    @property
    def actor(self) -> Actor:
        """Returns whoever asks, as the policy sees it."""
        return Actor.of(self.caller, self.taint, is_approved=self.is_approved)

    @property
    def is_approved(self) -> bool:
        """Returns whether a person approved this call."""
        return self.assessment is not None and self.assessment.effect is ToolEffect.ASK

    def approved(self, assessment: "Assessment") -> "ToolContext":
        """Returns the context of a call that begins by an assessment, for its files too."""
        context = replace(self, assessment=assessment)
        rules = self.workspace.rules
        if isinstance(rules, FileGate) and context.is_approved:
            gate = replace(rules, actor=replace(rules.actor, is_approved=True))
            context = replace(context, workspace=replace(self.workspace, rules=gate))
        return context


class Tool(Protocol):
    """One capability that a model may call.

    A tool may have `async def assess(arguments, context) -> Assessment`, which is asked about each
    call before it is made; a tool without it leaves the decision to the policy.

    A tool that runs commands has `async def source(arguments, context) -> Origin`: whose words the
    call may bring. The result has this origin, and so have the files that the call changed.
    """

    @property
    def spec(self) -> ToolSpec:
        """Returns the description of the tool for the model."""
        ...

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Checks the arguments and does the work.

        Raises:
            ToolError: with a message that tells the model what to do instead.
        """
        ...


def reads_only(tool: Tool) -> bool:
    """Returns whether the tool declares that a call has no effect: it may be made a second time.

    A tool without a `reads_only` has effects.
    """
    return getattr(tool, "reads_only", False) is True


def verb_of(tool: Tool) -> Verb | None:
    """Returns the effect that a tool declares as `verb`; `use` is none that outlives the call.

    Every tool of ours declares one. Tools of the memory are the owner's alone, whatever the
    configuration grants.
    """
    verb = getattr(tool, "verb", None)
    return verb if isinstance(verb, Verb) else None


def speaks_itself(tool: Tool) -> bool:
    """Returns whether the errors of the tool are words of ours and of the call alone.

    It declares so with `own_errors`. Any other error may repeat what somebody else wrote.
    """
    return getattr(tool, "own_errors", False) is True and not plugin_of(tool)


def plugin_of(tool: Tool) -> str:
    """Returns the id of the plugin that brought the tool; empty for a tool of ours."""
    plugin = getattr(tool, "plugin", "")
    return plugin if isinstance(plugin, str) else ""


async def assess(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Assessment:
    """Returns the answer of the tool's own gate to a call; a tool without a gate allows it.

    Raises:
        ToolError: the arguments are wrong.
        ValidationError: the same.
        TypeError: the gate returned something else.
    """
    gate = getattr(tool, "assess", None)
    if gate is None:
        return Assessment(ToolEffect.ALLOW, "no-gate")
    assessment = await gate(arguments, context)
    if not isinstance(assessment, Assessment):
        raise TypeError(f"assess returned {type(assessment).__name__}, not an Assessment")
    return assessment


async def source(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> Origin:
    """Returns whose words a call may bring, and write to files, as the tool says before the call.

    A tool without a `source` leaves it unknown: its words may be anybody's.
    """
    ask = getattr(tool, "source", None)
    origin = await ask(arguments, context) if ask is not None else Origin.TOOL
    return origin if isinstance(origin, Origin) else Origin.TOOL


def use_of(tool: Tool, actor: Actor, layers: ToolPolicy = NO_LAYERS) -> Request:
    """Returns the question whether somebody may use the tool."""
    name, verb = tool.spec.name, verb_of(tool)
    return Request(actor, Verb.USE, name, effect=verb, tools=layers, plugin=plugin_of(tool))


def call_of(
    tool: Tool, arguments: dict[str, Any], context: ToolContext, layers: ToolPolicy
) -> Request:
    """Returns the question whether a call may be made, with what it asks for."""
    actor = context.actor
    use = use_of(tool, actor, layers)
    asks_for_files = actor.is_tainted and actor.is_owner  # others may not write them at all
    host = arguments.get("host")
    if arguments.get("elevated"):  # whatever a tool would take as true
        host = GATEWAY
    return replace(
        use,
        is_call=True,
        reads=reads_only(tool),
        host=host if isinstance(host, str) else "",
        file=_kept_file(tool, arguments, context) if asks_for_files else None,
    )


def _kept_file(tool: Tool, arguments: dict[str, Any], context: ToolContext) -> FileSubject | None:
    """Returns the first file that the call would write and that later runs read.

    A tool names the files of a call with `writes(arguments)`. What cannot be opened is left to the
    tool, which will say so; the gate of the file decides once more when it is written.
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
    """Returns the decision of the policy, and of the tool whether it serves the caller at all."""
    decision = decide(request)
    ask: Callable[[Caller], bool] | None = getattr(tool, "is_offered", None)
    if decision.effect is ToolEffect.DENY or ask is None:
        return decision
    if caller is None or not ask(caller):
        return Decision(allowed=False, rule="not-offered", reason="the run is not offered it")
    return decision


def offered(tools: Iterable[Tool], caller: Caller, layers: ToolPolicy = NO_LAYERS) -> list[Tool]:
    """Returns the tools that a run of `caller` is offered, in their order.

    The policy is asked first, then the tools that it permits.
    """
    return serving(permitted(tools, caller, layers), caller)


def permitted(tools: Iterable[Tool], caller: Caller, layers: ToolPolicy) -> list[Tool]:
    """Returns the tools that the policy permits to a run of `caller`, in their order.

    Without a grant they are the owner's alone, and each of the `layers` of the configuration takes
    some away.
    """
    actor = Actor.of(caller)
    return [tool for tool in tools if decide(use_of(tool, actor, layers)).allowed]


def serving(tools: Iterable[Tool], caller: Caller) -> list[Tool]:
    """Returns the tools that serve the caller: one with an `is_offered(caller)` decides for itself.

    One of ours looks at the caller and the configuration alone, since its answer is remembered
    (`runtime.toolbox`). What several tools ask alike is asked once.
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
