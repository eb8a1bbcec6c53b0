"""Scope of memory: the conversations in which it is used, and the passages of a caller (pure).

Two checks apply. The scope, which the owner configures, selects the conversations: direct chats
only, unless `memory.qmd.scope` allows more. The rights cannot be configured: the memory is the
owner's, and no rule opens it to another person. Sources: seed 003, "Scope Rules"; decisions 6.
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

MIN_PROMPT_CHARS: Final = 10
"""Minimal length of a prompt for a recall, in characters (decisions 6)."""
MIN_CONTEXT_BYTES: Final = 600
"""Minimal room for a recall, in bytes."""
_KINDS: Final = {"dm": "direct"}


class CallerScope(Struct, frozen=True):
    """Decides at each turn whether memory is used; imports no user of the memory."""

    config: Callable[[], Config]

    def is_open(self, caller: Caller) -> bool:
        """Returns whether memory is used in the caller's conversation."""
        config = self.config()
        enabled = config.memory_search(caller.key.agent).enabled
        return enabled and is_open(config.memory.qmd.scope, caller)

    def is_open_private(self, caller: Caller) -> bool:
        """Returns whether memory is used and the owner is the only participant."""
        direct = caller.is_private and caller.chat is PeerKind.DIRECT
        return direct and self.is_open(caller)

    def is_recall_due(self, draft: PromptDraft) -> bool:
        """Returns whether messages were summarised and a recall is allowed and worthwhile."""
        caller = draft.context.caller
        return (
            draft.compactions > 0
            and draft.context_bytes >= MIN_CONTEXT_BYTES
            and len(draft.prompt.strip()) >= MIN_PROMPT_CHARS
            and caller is not None
            and self.is_open(caller)
        )


def is_open(scope: MemoryScope, caller: Caller) -> bool:
    """Returns whether memory is used in the caller's conversation, for this caller."""
    return has_right(caller) and in_scope(scope, caller)


def has_right(caller: Caller) -> bool:
    """Returns whether the caller is the owner, or a run in the owner's private conversation."""
    return decide(Request(Actor.of(caller), Verb.RECALL)).allowed


def in_scope(scope: MemoryScope, caller: Caller) -> bool:
    """Applies the rules: a matching deny rule wins, then an allow rule, then the default."""
    actions = {rule.action for rule in scope.rules if _fits(rule.match, caller)}
    if "deny" in actions:
        return False
    return "allow" in actions or scope.default == "allow"


def may_read(caller: Caller, hit: MemoryHit) -> bool:
    """Returns whether a passage may be shown to a caller with access to the memory.

    Passages of a conversation are shown in that conversation, and in private conversations of the
    owner if the session key is the owner's. A passage of an unknown conversation is never shown.
    """
    if hit.source is MemorySource.MEMORY:
        return True
    return hit.session is not None and may_read_session(caller, hit.session)


def may_read_session(caller: Caller, session: str) -> bool:
    """Returns whether passages of the conversation with this key may be shown to the caller."""
    if session == str(caller.key):
        return True
    return caller.is_private and SessionKey.parse(session).is_owners


def _fits(match: SendMatch, caller: Caller) -> bool:
    if match.chat_type and caller.chat.value != _KINDS.get(match.chat_type, match.chat_type):
        return False
    if match.channel and match.channel.lower() != (caller.channel.lower() or WEBCHAT):
        return False
    if not match.key_prefix and not match.raw_key_prefix:
        return True  # most rules have no prefix; this function runs several times per turn
    key, inner = str(caller.key), ":".join(caller.key.scope)
    prefix, raw = (match.key_prefix or "").lower(), (match.raw_key_prefix or "").lower()
    return key.startswith(raw) and (key.startswith(prefix) or inner.startswith(prefix))
