"""Recognises group messages that are addressed to an agent (pure).

Source: openclaw-behaviour 4.6.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from skerry.config.root import Config
from skerry.model.ids import AgentId
from skerry.model.inbound import InboundMessage
from skerry.policy.folding import visible

if TYPE_CHECKING:
    from skerry.infra.linear_patterns import Searches

_SEARCHED_CHARS: Final = 8192
"""Limit on the characters of a message that are searched for patterns."""
Patterns = tuple["Searches", ...]
_SPACE: Final = r"\s{1,9}"


def patterns(config: Config, agent: AgentId) -> Patterns:
    """Returns the agent's mention patterns: its own, else the common ones, else name and emoji."""
    settings = config.agents.by_id.get(agent)
    for section in (settings.group_chat if settings else None, config.messages.group_chat):
        if section is not None and section.mention_patterns is not None:
            return _compiled(section.mention_patterns)
    identity = settings.identity if settings else None
    name = (identity.name if identity else "") or (settings.name if settings else "") or agent
    return _derived(name, identity.emoji if identity else "")


def is_addressed(message: InboundMessage, names: Sequence["Searches"]) -> bool:
    """Returns whether the message mentions the bot, replies to it, or matches a pattern."""
    if message.mentions_me or (message.reply is not None and message.reply.is_me):
        return True
    text = visible(message.text[:_SEARCHED_CHARS])
    return any(pattern.search(text) for pattern in names)


@lru_cache(maxsize=256)
def _compiled(texts: tuple[str, ...]) -> Patterns:
    # Imported here because few configurations have patterns.
    from skerry.infra.linear_patterns import compiled  # noqa: PLC0415 - at first use

    return tuple(map(compiled, texts))


@lru_cache(maxsize=256)
def _derived(name: str, emoji: str) -> Patterns:
    expressions: list[Searches] = []
    if words := name.split():
        escaped = _SPACE.join(map(re.escape, words))
        expressions.append(re.compile(rf"(?<!\w)@?{escaped}(?!\w)", re.IGNORECASE))
    if sign := emoji.strip():
        expressions.append(re.compile(re.escape(sign), re.IGNORECASE))
    return tuple(expressions)
