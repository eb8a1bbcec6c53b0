"""Admits the senders of platforms; an unknown sender gets a pairing code."""

import logging
import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from msgspec import Struct

from skerry.config.root import Config
from skerry.infra.clock import Clock
from skerry.model.ids import AgentId, RunId, SessionKey
from skerry.model.inbound import InboundMessage, PeerKind, ReplyTo
from skerry.model.origin import Origin
from skerry.policy.channel_access import (
    AccessRules,
    ChannelVerdict,
    DmPolicy,
    decide,
    group_prompt,
    group_skills,
    requires_mention,
)
from skerry.routing.mentions import is_addressed, patterns
from skerry.routing.message_context import HistoryLine, history_line
from skerry.runtime.delivery import Senders
from skerry.store import Store, Unit, group_history, inbound, outbox, sender_pairing

logger = logging.getLogger(__name__)

ALPHABET: Final = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Characters of a code, without those that look alike."""
CODE_LENGTH: Final = 8
REQUESTED: Final = "channels.pairing.requested"
NO_RULES: Final[Mapping[str, AccessRules]] = MappingProxyType({})


def quiet(_name: str, _payload: Any) -> None:
    """Ignores the event."""


class GroupState(Struct, frozen=True):
    """Facts and settings of a group that decide how one of its messages is handled."""

    mentioned: bool = False
    answers: bool = True
    must_mention: bool = False
    """True if only messages addressed to the agent are answered."""
    limit: int = 0
    """Limit on the messages stored until the agent is addressed."""
    prompt: str = ""
    skills: tuple[str, ...] | None = None
    """Names of the offered skills; None means all."""


DIRECT: Final = GroupState()


class ChannelGate(Struct, frozen=True):
    """Refuses messages of a platform before they cost a model call or a download."""

    store: Store
    clock: Clock
    delivery: Senders
    announce: Callable[[str, Any], None] = quiet
    """Sends an event to the clients that may receive it."""
    unnamed: Mapping[str, AccessRules] = NO_RULES
    """Rules of channels without a section in the configuration; others have the defaults."""
    reach: Callable[[str], None] = lambda _: None

    def rules(self, config: Config, message: InboundMessage) -> AccessRules:
        """Returns the rules for the account at which a message arrived."""
        path = f"channels.{message.channel}"
        section = config.channel(message.channel)
        if section is not None:
            return section.access_rules(path, message.account)
        return self.unnamed.get(message.channel) or AccessRules(path)

    async def admit(
        self, config: Config, message: InboundMessage, to: ReplyTo, *, is_owner: bool
    ) -> Origin | None:
        """Returns the origin of an admitted message; None for a refused one.

        An unknown sender gets a pairing code once, in the unit that stores the message id.
        """
        rules = self.rules(config, message)
        decision = decide(message, rules, is_owner=is_owner)
        if decision.verdict is ChannelVerdict.ADMIT:
            if is_owner:
                return Origin.OWNER
            return Origin.KNOWN if decision.rule.endswith(".allowFrom") else Origin.STRANGER
        if decision.verdict is ChannelVerdict.PAIRED:
            sender = await self.store.read(lambda reader: sender_pairing.find(reader, message))
            if sender is not None and not sender.rejected:
                return Origin.KNOWN
            if sender is None and rules.dm is DmPolicy.PAIRING:
                await self._ask(message, to)
                return None
        group = "" if message.peer.kind is PeerKind.DIRECT else f" in the group {message.peer.id}"
        logger.info("refused a message over %s%s: %s", message.channel, group, decision.rule)
        return None

    def group(self, config: Config, message: InboundMessage, agent: AgentId) -> GroupState:
        """Returns the state of a message's group; in a direct chat every message is answered."""
        if message.peer.kind is PeerKind.DIRECT:
            return DIRECT
        rules = self.rules(config, message)
        mentioned = is_addressed(message, patterns(config, agent))
        needs_mention = requires_mention(message, rules)
        limit = rules.history_limit
        if limit is None:
            limit = config.messages.group_chat.history_limit
        return GroupState(
            mentioned=mentioned,
            answers=mentioned or not needs_mention,
            must_mention=needs_mention,
            limit=limit if needs_mention else 0,
            prompt=group_prompt(message, rules),
            skills=group_skills(message, rules),
        )

    async def keep(self, message: InboundMessage, key: SessionKey, group: GroupState) -> None:
        """Stores a message that is not addressed to the agent; a redelivered one is stored once."""
        if not group.limit:
            return
        run_id, now = RunId(f"group-{uuid.uuid4()}"), self.clock.now_ms()
        sender, text = history_line(message)

        def write(unit: Unit) -> None:
            if inbound.take(unit, message, run_id) is None:
                group_history.add(
                    unit, str(key), sender, text, now, limit=group.limit, run_id=run_id
                )

        await self.store.write(write)

    async def history(self, key: SessionKey, group: GroupState) -> Sequence[HistoryLine]:
        """Returns the group messages for the context of the next one, oldest first."""
        if not group.limit:
            return ()
        rows = await self.store.read(
            lambda reader: group_history.read(reader, str(key), group.limit)
        )
        return [HistoryLine(*row) for row in rows]

    async def _ask(self, message: InboundMessage, to: ReplyTo) -> None:
        code = "".join(secrets.choice(ALPHABET) for _ in range(CODE_LENGTH))
        run_id = RunId(f"pairing-{uuid.uuid4()}")
        parts = self.delivery.parts(to, answer(message, code))
        now = self.clock.now_ms()

        def write(unit: Unit) -> bool:
            if inbound.take(unit, message, run_id) is not None:
                return False
            began = sender_pairing.ask(unit, message, to, code, now)
            if began:
                outbox.add(unit, run_id, 0, to, parts, now)
            return began

        began = await self.store.write(write)
        self.reach("pairing.asked")
        if not began:
            logger.info("no pairing code for an unpaired sender over %s now", message.channel)
            return
        self.delivery.wake(to)
        payload = {
            "channel": message.channel,
            "accountId": message.account,
            "senderId": message.sender_id,
            "senderName": message.sender_name,
            "expiresAtMs": now + sender_pairing.LASTS_MS,
        }
        self.announce(REQUESTED, payload)


def answer(message: InboundMessage, code: str) -> str:
    """Returns the text with the pairing code, the only text for an unpaired sender."""
    return (
        "I do not answer people whom my owner has not approved.\n\n"
        f"Your id here: {message.sender_id}\n"
        f"Pairing code: {code} (valid for 1 hour)\n\n"
        "My owner can approve you with this command:\n"
        f"skerry pairing approve {message.channel} {code}\n"
        "Then write again; this message is not read."
    )
