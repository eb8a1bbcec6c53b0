"""Decision whether a conversation's replies are sent to its chat platform (pure).

Source: openclaw-behaviour 2.4, `session.sendPolicy`.
"""

from skerry.config.session import SendMatch, SendPolicy
from skerry.model.ids import SessionKey
from skerry.model.inbound import ReplyTo
from skerry.model.session import SessionSettings


def sends_to(
    policy: SendPolicy, settings: SessionSettings | None, key: SessionKey, to: ReplyTo | None
) -> ReplyTo | None:
    """Returns the target of the replies; None if they are only stored, as those for clients."""
    return None if to is None or is_mute(policy, settings, key, to) else to


def is_mute(
    policy: SendPolicy, settings: SessionSettings | None, key: SessionKey, to: ReplyTo
) -> bool:
    """Returns whether replies are not sent. The conversation's setting overrides the policy.

    A matching rule that denies comes before one that allows; without a match the default applies.
    """
    if settings is not None and settings.send_policy in {"allow", "deny"}:
        return settings.send_policy == "deny"
    actions = {rule.action for rule in policy.rules if _fits(rule.match, key, to)}
    if "deny" in actions:
        return True
    return not actions and policy.default == "deny"


def _fits(match: SendMatch, key: SessionKey, to: ReplyTo) -> bool:
    text, inner = str(key), ":".join(key.scope)
    kind = "direct" if match.chat_type == "dm" else match.chat_type
    prefix, raw = (match.key_prefix or "").lower(), (match.raw_key_prefix or "").lower()
    return (
        (match.channel or to.channel).lower() == to.channel.lower()
        and kind in {None, to.peer.kind.value}
        and (text.startswith(prefix) or inner.startswith(prefix))
        and text.startswith(raw)
    )
