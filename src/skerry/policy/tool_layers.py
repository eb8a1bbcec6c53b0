"""Layers of the tool policy: compiled lists, each of which only removes (pure).

Sources: seed 003, "Permission Resolution Stack"; openclaw-behaviour 9.3 and 9.4.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from skerry.policy.effect import ToolEffect
from skerry.policy.tool_names import (
    CORE,
    GROUP,
    KNOWN_PLUGINS,
    PLUGIN_GROUP,
    PROFILES,
    SERVERS,
    expanded,
)

WILDCARD: Final = "*"
_IMPLIED: Final = {"apply_patch": "exec"}
"""Tools that an allowlist with another tool includes: a command can do as much as a patch."""


class PolicyStep(Struct, frozen=True):
    """One step of a decision: layer, effect and rule."""

    layer: str
    effect: ToolEffect
    rule: str


class Notice(Struct, frozen=True):
    """An entry of a list that does not have its apparent effect."""

    path: str
    """Key of the configuration, such as `tools.allow`."""
    entry: str
    message: str


class ToolLists(Struct, frozen=True):
    """The lists of one scope in the configuration."""

    profile: str | None = None
    allow: tuple[str, ...] | None = None
    also_allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """Returns the entries of `allow` and `alsoAllow` together; None allows all."""
        return (*self.allow, *self.also_allow) if self.allow else None

    def over(self, general: "ToolLists") -> "ToolLists":
        """Returns these lists merged over more general ones; the `deny` lists are joined."""
        return ToolLists(
            self.profile or general.profile,
            self.allow or general.allow,
            self.also_allow or (() if self.allow else general.also_allow),
            tuple(dict.fromkeys((*self.deny, *general.deny))),
        )


def _pattern(name: str) -> re.Pattern[str]:
    """Returns the pattern of a name in which `*` matches any characters."""
    return re.compile(".*".join(map(re.escape, re.split(r"\*+", name))), re.DOTALL)


class ToolSelection:
    """A compiled list of names, patterns with `*`, plugins and groups."""

    __slots__ = ("_all_plugins", "_names", "_patterns")

    def __init__(self, entries: Iterable[str]) -> None:
        """Compiles the entries; an unknown entry selects nothing."""
        self._names = expanded(entries)
        self._all_plugins = self._names.pop(PLUGIN_GROUP, "")
        self._patterns = [
            (_pattern(name), entry) for name, entry in self._names.items() if WILDCARD in name
        ]

    def entry(self, name: str, plugin: str = "") -> str:
        """Returns the entry that selects a tool; empty for none.

        Args:
            name: The canonical name of the tool.
            plugin: The id of the plugin that registered it; empty for a built-in tool.

        """
        if (entry := self._names.get(name)) is not None:
            return entry
        if plugin and (entry := self._names.get(plugin) or self._all_plugins):
            return entry
        return next((entry for pattern, entry in self._patterns if pattern.fullmatch(name)), "")


class Layer(Struct, frozen=True):
    """One layer: the tools that it allows at most, and those that it denies."""

    name: str
    source: str
    """Key of the configuration, such as `agents.list[0].tools`."""
    allow: ToolSelection | None = None
    """None allows all."""
    deny: ToolSelection | None = None
    listed: str = "allow"
    """Name of the list of `allow` in rules."""

    def judge(self, name: str, plugin: str) -> PolicyStep:
        """Returns the effect of the layer on a tool, by its canonical name."""
        if self.deny is not None and (entry := self.deny.entry(name, plugin)):
            return PolicyStep(self.name, ToolEffect.DENY, f"{self.source}.deny: {entry}")
        if self.allow is None:
            return PolicyStep(self.name, ToolEffect.ALLOW, self.source)
        entry = self.allow.entry(name, plugin)
        if not entry and name in _IMPLIED:
            entry = self.allow.entry(_IMPLIED[name])
        if entry:
            return PolicyStep(self.name, ToolEffect.ALLOW, f"{self.source}.{self.listed}: {entry}")
        return PolicyStep(self.name, ToolEffect.DENY, f"{self.source}.{self.listed}: not listed")


def profile_layer(name: str, source: str, lists: ToolLists) -> Layer | None:
    """Returns the layer of a profile with its `alsoAllow`; None if it restricts nothing."""
    names = PROFILES.get(lists.profile) if lists.profile else None
    if names is None:
        return None
    entries = (*sorted(names), *lists.also_allow)
    return Layer(name, source, ToolSelection(entries), listed=f"profile={lists.profile}")


def list_layers(
    name: str, source: str, lists: ToolLists, plugins: frozenset[str]
) -> tuple[Layer | None, Layer | None]:
    """Returns the layers of the allowed and of the denied tools; None for a list without effect."""
    allowed = lists.allowed
    if allowed is not None and is_of_plugins(allowed, plugins):
        allowed = None
    allow = Layer(name, source, ToolSelection(allowed)) if allowed is not None else None
    deny = Layer(name, source, deny=ToolSelection(lists.deny)) if lists.deny else None
    return allow, deny


def is_of_plugins(entries: Iterable[str], plugins: frozenset[str]) -> bool:
    """Returns whether an allowlist has only plugins and their tools: it removes no built-in tool.

    An unknown entry is no plugin: with it the list restricts.
    """
    names = expanded(entries)
    return bool(names) and all(_is_plugin(name, plugins) for name in names)


def _is_plugin(name: str, plugins: frozenset[str]) -> bool:
    # The tools of the memory belong to the plugin in the memory slot, if there is one.
    return name in plugins or (name not in CORE and (name == PLUGIN_GROUP or name in KNOWN_PLUGINS))


def notices(path: str, lists: ToolLists, plugins: frozenset[str]) -> list[Notice]:
    """Returns the entries of a scope's lists without an effect, or with an unexpected one."""
    every: list[Notice] = []
    for key, entries in (
        ("allow", lists.allow or ()),
        ("alsoAllow", lists.also_allow),
        ("deny", lists.deny),
    ):
        every += [
            Notice(f"{path}.{key}", entry, "selects no tool")
            for entry in entries
            if not _selects(entry, plugins)
        ]
    if lists.allow is not None and not lists.allow:
        every.append(Notice(f"{path}.allow", "", "is empty, so it restricts nothing"))
    if lists.allowed is not None and is_of_plugins(lists.allowed, plugins):
        message = "names only plugins, so it removes no built-in tool"
        every.append(Notice(f"{path}.allow", "", message))
    return every


def _selects(entry: str, plugins: frozenset[str]) -> bool:
    names = expanded([entry])
    if not names:
        return False
    tools = CORE | plugins | KNOWN_PLUGINS
    return any(
        name in tools or name.startswith((PLUGIN_GROUP, SERVERS)) or _fits_any(name, tools)
        for name in names
    )


def _fits_any(name: str, tools: frozenset[str]) -> bool:
    if WILDCARD not in name or name.startswith(GROUP):
        return False
    selection = ToolSelection([name])
    return any(selection.entry(tool) for tool in tools)


def provider_lists(by_provider: Mapping[str, ToolLists], provider: str, model: str) -> ToolLists:
    """Returns the lists for a model: those of `provider/model` over those of `provider`."""
    if not by_provider:
        return ToolLists()
    folded = {key.strip().lower(): lists for key, lists in by_provider.items()}
    provider, model = provider.lower(), model.lower()
    keys = (f"{provider}/{model}", model if "/" in model else "", provider)
    lists = ToolLists()
    for key in dict.fromkeys(keys):
        if key and key in folded:
            lists = lists.over(folded[key])
    return lists
