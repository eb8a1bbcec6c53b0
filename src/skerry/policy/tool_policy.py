"""Policy on tools for one situation: its layers in order, compiled once (pure).

The order is that of seed 003: profile, allow, deny, owner-only, provider, elevated, and last the
rules of a group, a sandbox and a sub-agent. Each layer only removes. `alsoAllow` adds only to the
profile and to `allow` of the same scope. A `deny` in any layer applies.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import takewhile
from types import MappingProxyType
from typing import Final, Self

from msgspec import Struct, field
from msgspec.structs import replace

from skerry.model.ids import SessionKey, SessionKind
from skerry.policy.effect import ToolEffect
from skerry.policy.tool_layers import (
    Layer,
    Notice,
    PolicyStep,
    ToolLists,
    ToolSelection,
    list_layers,
    notices,
    profile_layer,
    provider_lists,
)
from skerry.policy.tool_names import HOST_TOOLS, SANDBOX_DENIED, SUBAGENT_DENIED

ANY: Final = "*"
SANDBOX: Final = "sandbox"
STABLE: Final = ("id:", "e164:")
"""Prefixes of sender keys that senders cannot choose."""
_OF_SENDERS: Final = frozenset({"group", "sender"})
"""Names of layers that depend on the sender."""
_THREADS: Final = frozenset({"thread", "topic"})
_SHARED: Final = frozenset({SessionKind.GROUP, SessionKind.CHANNEL})


class Elevation(Struct, frozen=True):
    """Senders whose runs may request a command outside the sandbox."""

    enabled: bool = True
    allow_from: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Ids of senders by channel; `*` is every sender of the channel."""

    def admits(self, channel: str, sender: str) -> bool:
        """Returns whether the sender is listed for the channel."""
        listed = self.allow_from.get(channel, ())
        return self.enabled and (ANY in listed or (bool(sender) and sender.lower() in listed))


class GroupRules(Struct, frozen=True):
    """Rules of one group of a channel."""

    lists: ToolLists = ToolLists()
    by_sender: Mapping[str, ToolLists] = MappingProxyType({})
    """Lists by typed key: `id:`, `e164:`, `username:`, `name:`, or `*`."""


class ToolScope(Struct, frozen=True):
    """The section `tools` of the whole configuration, or of one agent."""

    path: str = "tools"
    lists: ToolLists = ToolLists()
    by_provider: Mapping[str, ToolLists] = MappingProxyType({})
    elevated: Elevation | None = None
    subagents: ToolLists = ToolLists()
    sandbox: ToolLists = ToolLists()


class ToolRules(Struct, frozen=True, eq=False):
    """All rules on the tools of one agent."""

    scope: ToolScope = ToolScope()
    agent: ToolScope | None = None
    guests: frozenset[str] = frozenset()
    """Names of tools that people other than the owner may use."""
    groups: Mapping[str, Mapping[str, GroupRules]] = MappingProxyType({})
    """Rules by channel and group id; `*` is every group."""
    plugins: frozenset[str] = frozenset()
    """Ids of plugins, and names of their tools."""
    host: str = SANDBOX
    """Host of commands that do not request one."""
    spawn_depth: int = 1
    """Depth to which sub-agents may start sub-agents."""

    @property
    def scopes(self) -> tuple[ToolScope, ...]:
        """Returns the scopes, the general one first."""
        return (self.scope, self.agent) if self.agent else (self.scope,)


class Situation(Struct, frozen=True):
    """Properties of a run that select rules."""

    kind: SessionKind = SessionKind.MAIN
    channel: str = ""
    """Chat platform; empty for a client of the gateway."""
    group: str = ""
    """Id of the group or channel; empty in a direct chat."""
    sender: tuple[str, ...] = ()
    """Typed keys of the sender, such as `id:42`."""
    provider: str = ""
    model: str = ""
    """Id of the model that answers, without its provider."""
    is_sandboxed: bool = False
    depth: int = 0
    """Depth of the conversation in the tree of sub-agents; 0 is no sub-agent."""

    @classmethod
    def of(
        cls,
        key: SessionKey,
        channel: str = "",
        sender: tuple[str, ...] = (),
        *,
        model: tuple[str, str] = ("", ""),
        is_sandboxed: bool = False,
    ) -> Self:
        """Returns the situation of a run in the conversation of `key`.

        Args:
            key: The conversation.
            channel: Chat platform; when empty, that in the key of a group.
            sender: Typed keys of the sender.
            model: Provider and id of the model that answers.
            is_sandboxed: True if the conversation's commands run in a sandbox.

        """
        kind, group = key.kind, ""
        if kind in _SHARED or kind is SessionKind.DIRECT:
            index = key.scope.index(kind.value)
            channel = channel or (key.scope[0] if index else "")
            if kind in _SHARED:  # an id may have colons; a thread follows it
                group_parts = takewhile(lambda part: part not in _THREADS, key.scope[index + 1 :])
                group = ":".join(group_parts)
        provider, model_id = model
        depth = key.scope.count(SessionKind.SUBAGENT)
        return cls(kind, channel.lower(), group, sender, provider, model_id, is_sandboxed, depth)


class ToolPolicy(Struct, frozen=True, eq=False):
    """Layers for one situation, in two parts: before and after the rules on the actor."""

    granted: frozenset[str] = frozenset()
    before: tuple[Layer, ...] = ()
    after: tuple[Layer, ...] = ()
    elevations: tuple[Elevation, ...] = ()
    """Rules on commands outside the sandbox; all must admit the sender."""
    situation: Situation = field(default_factory=Situation)
    joined: tuple[Situation, ...] = ()
    """Situations of further senders, and of conversations on whose behalf the run was started."""
    host: str = SANDBOX
    """Host of commands that do not request one: `sandbox`, `gateway` or `node`."""


@lru_cache(maxsize=512)
def policy(rules: ToolRules, situation: Situation) -> ToolPolicy:
    """Returns the policy on tools in a situation."""
    return ToolPolicy(
        rules.guests,
        tuple(_before(rules)),
        tuple(_after(rules, situation)),
        tuple(scope.elevated for scope in rules.scopes if scope.elevated is not None),
        situation,
        host=rules.host,
    )


def combined(policies: Iterable[ToolPolicy]) -> ToolPolicy:
    """Returns the policy of a run for several senders: it permits what all of them may do."""
    first, *remaining = policies
    if not remaining:
        return first
    sender_layers = [
        layer for policy in remaining for layer in policy.after if layer.name in _OF_SENDERS
    ]
    situations = tuple(policy.situation for policy in remaining)
    return replace(first, after=(*first.after, *sender_layers), joined=situations)


def _before(rules: ToolRules) -> list[Layer]:
    chosen = next((scope for scope in reversed(rules.scopes) if scope.lists.profile), rules.scope)
    extra = next((s.lists.also_allow for s in reversed(rules.scopes) if s.lists.also_allow), ())
    profile = profile_layer(
        "profile", chosen.path, ToolLists(chosen.lists.profile, also_allow=extra)
    )
    allows, denies = [], []
    for scope in rules.scopes:
        allow, deny = list_layers("allow", scope.path, scope.lists, rules.plugins)
        allows.append(allow)
        denies.append(Layer("deny", deny.source, deny=deny.deny) if deny else None)
    return [
        *_or_unset("profile", [profile]),
        *_or_unset("allow", allows),
        *_or_unset("deny", denies),
    ]


def _after(rules: ToolRules, situation: Situation) -> list[Layer]:
    providers: list[Layer | None] = []
    for scope in rules.scopes:
        lists = provider_lists(scope.by_provider, situation.provider, situation.model)
        providers += _lists("provider", f"{scope.path}.byProvider", lists, rules.plugins)
    layers = _or_unset("provider", providers)
    layers += _groups(rules, situation)
    return layers + _last(rules, situation)


def _groups(rules: ToolRules, situation: Situation) -> list[Layer]:
    if not situation.group or situation.channel not in rules.groups:
        return []
    groups = rules.groups[situation.channel]
    path = f"channels.{situation.channel}.groups"
    named, every = groups.get(situation.group, GroupRules()), groups.get(ANY, GroupRules())
    layers = _lists("group", f"{path}.tools", named.lists.over(every.lists), rules.plugins)
    for group in (named, every):
        source = f"{path}.toolsBySender"
        lists = group.by_sender.get(ANY, ToolLists())
        for key in situation.sender:
            if key not in group.by_sender:
                continue
            if key.startswith(STABLE):
                lists = group.by_sender[key].over(lists)
            else:  # the sender may change it, so it can only remove tools
                own_source = f"{source}[{key}]"
                layers += _lists("sender", own_source, group.by_sender[key], rules.plugins)
        layers += _lists("sender", source, lists, rules.plugins)
    return [layer for layer in layers if layer is not None]


def _last(rules: ToolRules, situation: Situation) -> list[Layer]:
    layers: list[Layer | None] = []
    is_subagent = situation.kind is SessionKind.SUBAGENT
    if situation.is_sandboxed:
        configured = False
        for scope in rules.scopes:
            source = f"{scope.path}.sandbox.tools"
            added = _lists("sandbox", source, scope.sandbox, rules.plugins)
            configured = configured or any(added)
            layers += added
        if not configured and (is_subagent or situation.kind in _SHARED):
            layers.append(Layer("sandbox", "sandbox", deny=ToolSelection(SANDBOX_DENIED)))
    if is_subagent:
        may_spawn = situation.depth < rules.spawn_depth
        denied = SUBAGENT_DENIED - {"sessions_spawn"} if may_spawn else SUBAGENT_DENIED
        layers.append(Layer("subagent", "sub-agents", deny=ToolSelection(denied)))
        for scope in rules.scopes:
            source = f"{scope.path}.subagents"
            layers += _lists("subagent", source, scope.subagents, rules.plugins)
    return _or_unset("subagent" if is_subagent else "sandbox", layers)


def _lists(name: str, source: str, lists: ToolLists, plugins: frozenset[str]) -> list[Layer | None]:
    return [profile_layer(name, source, lists), *list_layers(name, source, lists, plugins)]


def _or_unset(name: str, layers: list[Layer | None]) -> list[Layer]:
    """Returns the layers that are not None; without any, one layer that removes nothing."""
    present = [layer for layer in layers if layer is not None]
    return present or [Layer(name, "not configured")]


ELEVATION_REASONS: Final = MappingProxyType(
    {
        "tools.elevated.enabled": "tools.elevated.enabled is false: no command leaves the sandbox",
        "tools.elevated.allowFrom": "the sender is not listed in tools.elevated.allowFrom",
        "elevated-approval": "it would run outside the sandbox",
    }
)
"""Reasons by rule of the step `elevated`."""


def elevation(policy_: ToolPolicy, name: str, host: str, *, is_owner: bool) -> PolicyStep:
    """Returns the step `elevated` for a command that requests another host than the configured."""
    if name not in HOST_TOOLS or host in {"", SANDBOX, policy_.host}:
        return PolicyStep("elevated", ToolEffect.ALLOW, "not-elevated")
    if not all(entry.enabled for entry in policy_.elevations):
        return PolicyStep("elevated", ToolEffect.DENY, "tools.elevated.enabled")
    for situation in (policy_.situation, *policy_.joined):
        admitted = _admits(policy_.elevations, situation)
        if not admitted and (situation.channel or not is_owner):
            return PolicyStep("elevated", ToolEffect.DENY, "tools.elevated.allowFrom")
    return PolicyStep("elevated", ToolEffect.ASK, "elevated-approval")


def _admits(elevations: Iterable[Elevation], situation: Situation) -> bool:
    """Returns whether all lists have the sender; False without any list."""
    ids = [key.partition(":")[2] for key in situation.sender if key.startswith("id:")]
    lists = [entry for entry in elevations if entry.allow_from]
    return bool(lists) and all(
        any(entry.admits(situation.channel, sender) for sender in (*ids, "")) for entry in lists
    )


def warnings(rules: ToolRules) -> list[Notice]:
    """Returns the entries of all lists without an effect, or with an unexpected one."""
    every: list[Notice] = []
    for scope in rules.scopes:
        every += notices(scope.path, scope.lists, rules.plugins)
        every += notices(f"{scope.path}.subagents", scope.subagents, rules.plugins)
        every += notices(f"{scope.path}.sandbox.tools", scope.sandbox, rules.plugins)
        for provider, lists in scope.by_provider.items():
            every += notices(f"{scope.path}.byProvider.{provider}", lists, rules.plugins)
    for channel, groups in rules.groups.items():
        for group, group_rules in groups.items():
            path = f"channels.{channel}.groups.{group}"
            every += notices(f"{path}.tools", group_rules.lists, rules.plugins)
            for key, lists in group_rules.by_sender.items():
                every += notices(f"{path}.toolsBySender.{key}", lists, rules.plugins)
    return every
