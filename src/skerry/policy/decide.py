"""Decides every effect by one table of rules: methods, commands, tools, files, memory (pure).

`decide` depends on the actor with its rights and scopes, on the origins of the text that the run
has read, and on the object as it was opened. The first rule of the verb that applies decides; if
none applies, the effect is denied.
"""

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from skerry.model.caller import Caller
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.policy.access import ADMIN, READ, UNRESTRICTED, WRITE, Need, Role, Verb
from skerry.policy.effect import ToolEffect, strictest
from skerry.policy.file_kinds import LASTING, FileKind, FileSubject
from skerry.policy.taint import foreign, guarded_act
from skerry.policy.taint import reason as taint_reason
from skerry.policy.tool_layers import PolicyStep
from skerry.policy.tool_names import OWNER_ONLY, canonical
from skerry.policy.tool_policy import ELEVATION_REASONS, ToolPolicy, elevation

OTHER_PEOPLE: Final = frozenset({Origin.KNOWN, Origin.STRANGER})
"""Origins of text of other people; with such text a conversation is shared."""
_FOR_OWNER: Final = frozenset({Origin.OWNER, Origin.BOOT})


class Actor(Struct, frozen=True):
    """The person or run that requests an effect. The defaults are those of a stranger."""

    origin: Origin = Origin.STRANGER
    is_private: bool = False
    """True if only the owner takes part in the conversation."""
    role: Role | None = None
    """Role of the connection; None without a connection."""
    scopes: tuple[str, ...] | None = None
    """Scopes of the connection; None without a connection."""
    rights: Rights = Rights.NONE
    taint: frozenset[Origin] = frozenset()
    """Origins, other than the owner, of the text that the run has read."""
    is_approved: bool = False
    """True for a call that a person approved with its present arguments."""

    @classmethod
    def of(
        cls,
        caller: Caller | None,
        taint: frozenset[Origin] = frozenset(),
        *,
        is_approved: bool = False,
    ) -> "Actor":
        """Returns the actor of a run; without a caller it is a stranger.

        A checklist whose answer several people would read acts for none of them.
        """
        if caller is None:
            return cls(taint=taint)
        if caller.origin is Origin.BOOT and caller.chat is not PeerKind.DIRECT:
            return cls(taint=taint)
        return cls(caller.origin, caller.is_private, taint=taint, is_approved=is_approved)

    @property
    def is_owner(self) -> bool:
        """Returns whether the actor is the owner, or a run in the owner's private conversation."""
        return self.is_private or self.origin is Origin.OWNER

    @property
    def is_tainted(self) -> bool:
        """Returns whether the run has read foreign text, and no person approved the call."""
        return bool(foreign(self.taint)) and not self.is_approved

    @property
    def acts_for_owner(self) -> bool:
        """Returns whether the actor is the owner, or a run that the owner's files started."""
        return self.is_private or self.origin in _FOR_OWNER


OWNER: Final = Actor(Origin.OWNER, is_private=True, rights=Rights.OWNER)
"""The owner at the gateway's machine."""


NO_LAYERS: Final = ToolPolicy()
"""Policy without any list of the configuration, which removes no tool."""


class Request(Struct, frozen=True):
    """One requested effect, its actor and its object."""

    actor: Actor
    verb: Verb
    name: str = ""
    """Name of the method, event, command or tool."""
    need: Need = UNRESTRICTED
    """Need of the effect in the table."""
    file: FileSubject | None = None
    """The file as it was opened."""
    effect: Verb | None = None
    """Effect that a built-in tool declares, in addition to its use; None for a plugin's tool."""
    tools: ToolPolicy = NO_LAYERS
    """Layers of the configuration on tools."""
    plugin: str = ""
    """Id of the plugin that registered the tool; empty for a built-in tool."""
    host: str = ""
    """Host that the call requests; empty for the configured one."""
    is_call: bool = False
    """True for a call of the tool, False for its offer: only a call can be tainted."""
    reads: bool = False
    """True for a tool that declares that its calls have no effect."""


class Decision(Struct, frozen=True):
    """The decision, and the rule that applied."""

    allowed: bool
    rule: str
    reason: str = ""
    scope: str | None = None
    """The scope that the caller does not have; None for other reasons."""
    asks: bool = False
    """True if the effect is permitted after a person approves it."""
    trail: tuple[PolicyStep, ...] = ()
    """Steps of the decision on a tool, in order."""

    @property
    def effect(self) -> ToolEffect:
        """Returns `allow`, `ask` or `deny`."""
        if self.allowed:
            return ToolEffect.ALLOW
        return ToolEffect.ASK if self.asks else ToolEffect.DENY


class Rule(Struct, frozen=True):
    """One row of the table; it decides if `applies` returns True."""

    name: str
    verbs: frozenset[Verb]
    applies: Callable[[Request], bool]
    allowed: bool
    reason: Callable[[Request], str] = lambda _: ""


def _writes_kept_file(request: Request) -> bool:
    return request.file is not None and request.file.kind in LASTING


def _reads_memory(request: Request) -> bool:
    file = request.file
    return file is not None and file.kind in {FileKind.MEMORY, FileKind.UNVERIFIED}


def _is_shared(request: Request) -> bool:
    return bool(OTHER_PEOPLE & request.actor.taint)


def _origins_read(request: Request) -> str:
    return (
        "this conversation contains text that is not your owner's"
        f" ({', '.join(sorted(request.actor.taint))})"
    )


def _scopes(request: Request) -> tuple[str, ...]:
    return request.actor.scopes or ()


def allows(scopes: Iterable[str], scope: str) -> bool:
    """Returns whether `scopes` include `scope`; admin includes all, writing includes reading."""
    rights = frozenset(scopes)
    return scope in rights or ADMIN in rights or (scope == READ and WRITE in rights)


def _lacks_scope(request: Request) -> bool:
    if request.verb is Verb.GIVE and request.actor.scopes is None:
        return False  # for commands from platforms only the rights decide
    scope = request.need.scope
    return scope is not None and not allows(_scopes(request), scope)


def _always(_: Request) -> bool:
    return True


_CONNECTION: Final = frozenset({Verb.CALL, Verb.RECEIVE})
_COMMANDS: Final = frozenset({Verb.GIVE})
_TOOLS: Final = frozenset({Verb.USE})
_FILES: Final = frozenset({Verb.READ, Verb.WRITE})
_MEMORY: Final = frozenset({Verb.RECALL, Verb.NOTE})
_OBEY: Final = frozenset({Verb.OBEY})

RULES: Final = (
    Rule(
        "role",
        _CONNECTION,
        lambda r: r.need.role not in {None, r.actor.role},
        allowed=False,
        reason=lambda r: f"unauthorized role: {r.actor.role}",
    ),
    Rule(
        "rights",
        _COMMANDS,
        lambda r: not r.actor.rights.covers(r.need.rights),
        allowed=False,
        reason=lambda r: f"Only the owner may use /{r.name}.",
    ),
    Rule(
        "scope",
        _CONNECTION | _COMMANDS,
        _lacks_scope,
        allowed=False,
        reason=lambda r: f"missing scope: {r.need.scope}",
    ),
    Rule("met", _CONNECTION | _COMMANDS, _always, allowed=True),
    Rule("owners-tools", _TOOLS, lambda r: r.actor.acts_for_owner, allowed=True),
    Rule(
        "memory-tool",
        _TOOLS,
        lambda r: r.effect in _MEMORY,
        allowed=False,
        reason=lambda r: f"only the owner may use the tool {r.name}",
    ),
    Rule(
        "owner-only-tool",
        _TOOLS,
        lambda r: canonical(r.name) in OWNER_ONLY,
        allowed=False,
        reason=lambda r: f"only the owner may use the tool {r.name}",
    ),
    Rule(
        "granted-tool",
        _TOOLS,
        lambda r: r.name in r.tools.granted,
        allowed=True,
    ),
    Rule(
        "no-tools",
        _TOOLS,
        _always,
        allowed=False,
        reason=lambda r: f"only the owner may use the tool {r.name}; tools.guests.allow opens it",
    ),
    Rule(
        "closed",
        _FILES,
        lambda r: r.file is None or bool(r.file.closed),
        allowed=False,
        reason=lambda r: r.file.closed if r.file else "nothing was opened",
    ),
    Rule(
        "owners-memory",
        frozenset({Verb.READ}),
        lambda r: _reads_memory(r) and not r.actor.acts_for_owner,
        allowed=False,
        reason=lambda _: "the memory is the owner's",
    ),
    Rule(
        "shared-memory",
        frozenset({Verb.READ}),
        lambda r: _reads_memory(r) and _is_shared(r),
        allowed=False,
        reason=lambda _: "somebody else speaks in this conversation, and would read the memory",
    ),
    Rule(
        "owners-file",
        frozenset({Verb.WRITE}),
        lambda r: _writes_kept_file(r) and not r.actor.is_owner,
        allowed=False,
        reason=lambda _: "only the owner may change what every later run reads",
    ),
    Rule(
        "tainted-run",
        frozenset({Verb.WRITE}),
        lambda r: _writes_kept_file(r) and r.actor.is_tainted,
        allowed=False,
        reason=lambda r: (
            f"{_origins_read(r)}, and every later run reads the file. Show your owner the text;"
            " they write it, or send it with /remember"
        ),
    ),
    Rule("file", _FILES, _always, allowed=True),
    Rule(
        "memory-of-owner",
        _MEMORY,
        lambda r: not (r.actor.acts_for_owner if r.verb is Verb.RECALL else r.actor.is_owner),
        allowed=False,
        reason=lambda _: "only the owner may use the memory",
    ),
    Rule(
        "memory-shared",
        frozenset({Verb.RECALL}),
        _is_shared,
        allowed=False,
        reason=lambda _: "somebody else speaks in this conversation, and would read what is opened",
    ),
    Rule(
        "memory-tainted",
        frozenset({Verb.NOTE}),
        lambda r: r.actor.is_tainted,
        allowed=False,
        reason=_origins_read,
    ),
    Rule("memory", _MEMORY, _always, allowed=True),
    Rule(
        "tainted-file",
        _OBEY,
        lambda r: r.file is None or bool(r.file.taint),
        allowed=False,
        reason=lambda r: (
            "a run wrote it that had read text from others"
            f" ({', '.join(sorted(r.file.taint)) if r.file else 'unknown'})"
        ),
    ),
    Rule(
        "foreign-file",
        _OBEY,
        lambda r: r.file is not None and r.file.is_foreign,
        allowed=False,
        reason=lambda _: "it belongs to another user of this machine",
    ),
    Rule("owners-word", _OBEY, _always, allowed=True),
)
"""Rules in the order in which they are applied."""

_BY_VERB: Final = MappingProxyType(
    {verb: tuple(rule for rule in RULES if verb in rule.verbs) for verb in Verb}
)


def decide(request: Request) -> Decision:
    """Returns whether the effect is permitted, the rule, and for a tool the steps."""
    decision = _by_rules(request)
    return _with_layers(request, decision) if request.verb is Verb.USE else decision


def _by_rules(request: Request) -> Decision:
    for rule in _BY_VERB[request.verb]:
        if rule.applies(request):
            lacks = request.need.scope if rule.name == "scope" else None
            return Decision(rule.allowed, rule.name, rule.reason(request), lacks)
    return Decision(allowed=False, rule="default", reason="no rule allows it")


def _with_layers(request: Request, owner: Decision) -> Decision:
    """Returns the strictest decision of all layers and of the rules on the actor."""
    name, layers = canonical(request.name) or request.name, request.tools
    trail = [layer.judge(name, request.plugin) for layer in layers.before]
    trail.append(PolicyStep("owner-only", owner.effect, owner.rule))
    after = [layer.judge(name, request.plugin) for layer in layers.after]
    elevated = elevation(layers, name, request.host, is_owner=request.actor.is_owner)
    split = sum(step.layer == "provider" for step in after)
    trail += [*after[:split], elevated, *after[split:]]
    if request.is_call:
        trail.append(_tainted(request, name))
    effect = strictest(*(step.effect for step in trail))
    if effect is ToolEffect.ALLOW:
        return Decision(allowed=True, rule=owner.rule, trail=tuple(trail))
    step = next(step for step in trail if step.effect is effect)
    reason = f"the layer {step.layer} of the tool policy does not allow it ({step.rule})"
    if step.layer == "owner-only":
        reason = owner.reason
    elif step.layer == "elevated":
        reason = ELEVATION_REASONS[step.rule]
    elif step.layer == "taint":
        reason = taint_reason(step.rule, request.actor.taint)
    asks = effect is ToolEffect.ASK
    return Decision(allowed=False, rule=step.rule, reason=reason, asks=asks, trail=tuple(trail))


def _tainted(request: Request, name: str) -> PolicyStep:
    """Returns the step `taint` of a call: some calls of a tainted run require an approval."""
    if request.actor.is_tainted:
        rule = guarded_act(
            name,
            plugin=request.plugin,
            host=request.host or request.tools.host,
            file=request.file,
            reads=request.reads,
        )
        return PolicyStep(
            "taint", ToolEffect.ASK if rule else ToolEffect.ALLOW, rule or "free-of-taint"
        )
    return PolicyStep("taint", ToolEffect.ALLOW, "untainted")
