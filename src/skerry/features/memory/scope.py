"""Scope of memory: the conversations in which it is used, and its part for each caller (pure).

Two gates, one behind the other. The scope is the owner's word on places: direct chats alone unless
`memory.qmd.scope` says more. The rights are nobody's to change: what is remembered is the owner's,
and no rule opens it to another person. Sources: seed 003, "Scope Rules"; decisions 6 (group chats).
"""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from skerry.config.memory import MemoryScope
from skerry.config.root import Config
from skerry.config.session import SendMatch
from skerry.hooks.events import WEBCHAT
from skerry.model.caller import Caller
from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.memory import MemoryHit, MemorySource
from skerry.policy.access import Verb
from skerry.policy.decide import Actor, Request, decide
from skerry.sdk.hooks import PromptDraft

LEAST_PROMPT: Final = 10
"""Characters of a question that is worth looking up (decisions 6)."""
LEAST_BYTES: Final = 600
"""Bytes of room below which nothing is recalled."""
_KINDS: Final = {"dm": "direct"}


class CallerScope(Struct, frozen=True):
    """Answers, at each turn, where the memory is used; imports nothing that uses it."""

    config: Callable[[], Config]

    def is_open(self, caller: Caller) -> bool:
        """Returns whether memory is used in the caller's conversation."""
        config = self.config()
        enabled = config.memory_search(caller.key.agent).enabled
        return enabled and is_open(config.memory.qmd.scope, caller)

    def is_open_alone(self, caller: Caller) -> bool:
        """Returns whether it is, and nobody but the owner takes part."""
        direct = caller.is_private and caller.chat is PeerKind.DIRECT
        return direct and self.is_open(caller)

    def is_recall_due(self, draft: PromptDraft) -> bool:
        """Returns whether something was summarised, and may be looked up here."""
        caller = draft.context.caller
        return (
            draft.compactions > 0
            and draft.context_bytes >= LEAST_BYTES
            and len(draft.prompt.strip()) >= LEAST_PROMPT
            and caller is not None
            and self.is_open(caller)
        )


def is_open(scope: MemoryScope, caller: Caller) -> bool:
    """Returns whether memory is used in the caller's conversation, for who asks there."""
    return has_right(caller) and in_scope(scope, caller)


def has_right(caller: Caller) -> bool:
    """Returns whether the owner asks, or what runs in a conversation of the owner's alone."""
    return decide(Request(Actor.of(caller), Verb.RECALL)).allowed


def in_scope(scope: MemoryScope, caller: Caller) -> bool:
    """Applies the rules: any that matches and denies wins, then any that matches and allows."""
    actions = {rule.action for rule in scope.rules if _fits(rule.match, caller)}
    if "deny" in actions:
        return False
    return "allow" in actions or scope.default == "allow"


def may_read(caller: Caller, hit: MemoryHit) -> bool:
    """Returns whether a passage may be shown to the caller, for whom memory is open.

    What was said in a conversation is shown in that conversation; in a private one of the owner's
    also what was said in the others that are the owner's by their key. One whose conversation is
    not known is shown to nobody.
    """
    if hit.source is MemorySource.MEMORY:
        return True
    return hit.session is not None and may_hear(caller, hit.session)


def may_hear(caller: Caller, session: str) -> bool:
    """Returns whether what was said in the conversation of this key may be shown to the caller."""
    if session == str(caller.key):
        return True
    return caller.is_private and SessionKey.parse(session).is_owners


def _fits(match: SendMatch, caller: Caller) -> bool:
    if match.chat_type and caller.chat.value != _KINDS.get(match.chat_type, match.chat_type):
        return False
    if match.channel and match.channel.lower() != (caller.channel.lower() or WEBCHAT):
        return False
    if not match.key_prefix and not match.raw_key_prefix:
        return True  # as most rules: asked several times a turn
    key, inner = str(caller.key), ":".join(caller.key.scope)
    prefix, raw = (match.key_prefix or "").lower(), (match.raw_key_prefix or "").lower()
    return key.startswith(raw) and (key.startswith(prefix) or inner.startswith(prefix))
