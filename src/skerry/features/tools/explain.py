"""Explains the decision on a tool in a described situation."""

from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.infra.rooted_fs import Opened
from skerry.model.caller import Caller
from skerry.model.errors import SkerryError
from skerry.model.ids import AgentId, RunId, SessionKey, agent_id
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.policy.access import Verb
from skerry.policy.decide import Actor, Decision, Request, decide
from skerry.policy.effect import ToolEffect, strictest
from skerry.policy.file_kinds import FileSubject, kind_of
from skerry.policy.tool_layers import PolicyStep
from skerry.policy.tool_names import CHOSEN, CORE, GROUPS, PLANNED, SWITCHED, canonical
from skerry.runtime.run_context import caller_of
from skerry.runtime.toolbox import tool_layers
from skerry.sdk.tool_host import is_chosen, names_subagents

_VERBS: Final = {
    "memory_search": Verb.RECALL,
    "memory_get": Verb.RECALL,
    "memory_write": Verb.NOTE,
    "memory_forget": Verb.NOTE,
}
_FILES: Final = {
    "read": Verb.READ,
    "image": Verb.READ,
    "write": Verb.WRITE,
    "edit": Verb.WRITE,
    "apply_patch": Verb.WRITE,
}


class NoSuchAgentError(SkerryError):
    """The agent is not configured."""

    code = "request.unknown_agent"


class ToolQuestion(Struct, frozen=True):
    """A call to explain."""

    tool: str
    agent: str = ""
    session: str = "main"
    provider: str = ""
    """`provider` or `provider/model`."""
    origin: Origin = Origin.OWNER
    sender: tuple[str, ...] = ()
    """Typed keys of the sender, such as `id:42`."""
    channel: str = ""
    """Chat platform of the sender; empty uses that of the session, if it has one."""
    taint: frozenset[Origin] = frozenset()
    host: str = ""
    path: str = ""


def explain(config: Config, question: ToolQuestion) -> dict[str, Any]:
    """Returns the decision on the call and its trail, in the form of `skerry tools explain --json`.

    Raises:
        UnknownAgentError: the agent is not configured.
        InvalidSessionKeyError: the session is not a key.
    """
    decision = outcome(config, question)
    return {
        "tool": question.tool,
        "decision": str(decision.effect),
        "rule": decision.rule,
        "reason": decision.reason,
        "trail": [
            {"layer": step.layer, "effect": str(step.effect), "rule": step.rule}
            for step in decision.trail
        ],
    }


def decided(config: Config, question: ToolQuestion) -> Decision:
    """Returns the decision on the call; see `explain`."""
    key = SessionKey.parse(question.session, _agent(config, question))
    if key.agent not in config.agents.ids:
        ids = ", ".join(config.agents.ids)
        raise NoSuchAgentError(f"Unknown agent {key.agent!r}. Agents: {ids}.")
    request = RunRequest(RunId(""), key, "", origin=question.origin)
    actor = Actor.of(caller_of(request), question.taint)
    if question.origin is not Origin.OWNER:
        actor = replace(actor, is_private=False)  # the sender is not the owner, whatever the key
    provider, _, model = question.provider.partition("/")
    caller = Caller(
        key,
        PeerKind.DIRECT,
        question.origin,
        channel=question.channel,
        sender=question.sender,
    )
    name = canonical(question.tool) or question.tool
    call = Request(
        actor,
        Verb.USE,
        name,
        effect=_VERBS.get(name),
        tools=tool_layers(config, caller, (provider, model)),
        plugin="" if name in CORE else name,
        host=question.host,
        is_call=True,
    )
    file = _file_subject(config, call, key.agent, question.path)
    return _with_file(decide(replace(call, file=file)), call, file)


def _is_enabled(config: Config, name: str) -> bool:
    """Returns whether the section of the configuration with the tool's name enables the tool."""
    section = config.model_dump(include={name}).get(name)
    return isinstance(section, dict) and section.get("enabled") is True


def outcome(config: Config, question: ToolQuestion) -> Decision:
    """Returns the decision on the call, with the step of the tool: offered or not."""
    decision = decided(config, question)
    name = canonical(question.tool) or question.tool
    agent = SessionKey.parse(question.session, _agent(config, question)).agent
    if name in PLANNED:
        rule, reason = "no-such-tool", "this version has no such tool"
    elif name in SWITCHED and not _is_enabled(config, name):
        rule, reason = "not-offered", f"set {name}.enabled to true to offer it"
    elif (
        name not in CHOSEN
        or is_chosen(config, agent, name)
        or (name == "sessions_spawn" and names_subagents(config, agent))
    ):
        return decision
    else:
        rule = "not-offered"
        reason = (
            f'no profile and no list of tools selects it; add it to tools.alsoAllow: ["{name}"]'
        )
    trail = (*decision.trail, PolicyStep("offer", ToolEffect.DENY, rule))
    if decision.effect is ToolEffect.DENY:
        return replace(decision, trail=trail)
    return replace(decision, allowed=False, asks=False, rule=rule, reason=reason, trail=trail)


def _agent(config: Config, question: ToolQuestion) -> AgentId:
    return agent_id(question.agent) if question.agent else config.agents.default_id


def _file_subject(config: Config, call: Request, agent: AgentId, path: str) -> FileSubject | None:
    """Returns the file of the call, judged by its name without opening it."""
    verb = _FILES.get(call.name)
    if not path or verb is None:
        return None
    files = gate(config)
    workspace = config.workspace(agent)
    absolute = (workspace.resolve() / Path(path).expanduser()).resolve()
    closed = files.closed.reading if verb is Verb.READ else files.closed.writing
    reason = closed(absolute)
    if not any(absolute.is_relative_to(folder) for folder in files.workspaces):
        reason = reason or "the path is outside of the workspace"
    kind = kind_of(Opened(absolute), files.workspaces)
    return FileSubject(kind, str(absolute), reason or "")


def _with_file(decision: Decision, call: Request, file: FileSubject | None) -> Decision:
    """Returns the decision with the step of the file rules."""
    if file is None:
        return decision
    actor = replace(call.actor, taint=frozenset())  # the step of the taint covers this
    if call.name == "read":
        actor = call.actor
    of_file = decide(Request(actor, _FILES[call.name], file=file))
    step = PolicyStep("file", of_file.effect, of_file.rule)
    trail = (*decision.trail, step)
    if strictest(decision.effect, of_file.effect) is decision.effect:
        return replace(decision, trail=trail)
    return replace(of_file, trail=trail, asks=of_file.effect is ToolEffect.ASK)


def listed(config: Config, question: ToolQuestion) -> list[dict[str, Any]]:
    """Returns the decision on each known tool, in the form of `skerry tools list --json`."""
    rows: list[dict[str, Any]] = []
    for name in sorted(CORE):
        decision = outcome(config, replace(question, tool=name))
        groups = sorted(group for group, names in GROUPS.items() if name in names)
        rows.append(
            {
                "tool": name,
                "groups": groups,
                "decision": str(decision.effect),
                "rule": decision.rule,
                "reason": decision.reason,
            }
        )
    return rows
