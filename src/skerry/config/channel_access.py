"""Keys of `channels` about access: who may write over a platform, and which groups are read."""

from collections.abc import Mapping
from typing import Annotated, Self

from msgspec.structs import replace
from pydantic import BeforeValidator, Field, model_validator

from skerry.config.base import Section
from skerry.policy.channel_access import ANY, AccessRules, DmPolicy, GroupAccess, GroupPolicy

Person = Annotated[
    str, BeforeValidator(lambda value: str(value).strip()), Field(min_length=1, max_length=256)
]
"""The platform's id of a sender, with or without `channel:`; some are written as numbers."""
People = Annotated[tuple[Person, ...], Field(max_length=1000)]
SkillName = Annotated[str, Field(min_length=1, max_length=64)]


class TopicConfig(Section):
    """Settings of one topic of a group; what it leaves out is that of the group."""

    enabled: bool | None = None
    """Reads the topic at all."""
    allow_from: People | None = None
    """Ids of senders who may write there; `*` is everybody."""
    require_mention: bool | None = None
    """Answers only messages that mention the agent or reply to it."""
    system_prompt: str = Field(default="", max_length=10_000)
    """Text that the system prompt has in this topic, after that of the group."""
    agent_id: str = Field(default="", max_length=64)
    """Id of the agent that answers there, whatever the bindings say."""
    skills: tuple[SkillName, ...] | None = Field(default=None, max_length=256)
    """Names of the skills that are offered in this topic; without it those of the group."""

    def over(self, group: GroupAccess, topic: str) -> GroupAccess:
        """Returns the access to the topic of a group."""
        prompts = (group.system_prompt, self.system_prompt)
        return replace(
            group,
            enabled=group.enabled if self.enabled is None else self.enabled,
            allow_from=group.allow_from if self.allow_from is None else frozenset(self.allow_from),
            require_mention=(
                group.require_mention if self.require_mention is None else self.require_mention
            ),
            system_prompt="\n\n".join(text for text in prompts if text),
            skills=group.skills if self.skills is None else self.skills,
            agent=self.agent_id,
            topic=topic,
        )


class GroupAccessConfig(Section):
    """Access to one group of a channel."""

    enabled: bool = True
    """Reads the group at all."""
    allow_from: People | None = None
    """Ids of senders who may write there; `*` is everybody. Without it those of the channel."""
    require_mention: bool = True
    """Answers only messages that mention the agent or reply to it; the others are given to the
    model as history, once, with the next one that does."""
    system_prompt: str = Field(default="", max_length=10_000)
    """Text that the system prompt has in this group."""
    topics: dict[str, TopicConfig] = Field(default_factory=dict, max_length=1000)
    """Settings by id of a topic or thread of the group; `*` is every one, and `1` the topic
    General of Telegram, whose messages have no id of a topic."""
    skills: tuple[SkillName, ...] | None = Field(default=None, max_length=256)
    """Names of the skills that are offered in this group; without it all of them."""

    @property
    def access(self) -> GroupAccess:
        """Returns it as the policy reads it."""
        allowed = None if self.allow_from is None else frozenset(self.allow_from)
        group = GroupAccess(
            self.enabled, allowed, self.require_mention, self.system_prompt, self.skills
        )
        topics = {id_: topic.over(group, id_) for id_, topic in self.topics.items()}
        return replace(group, topics=topics)


class AccessConfig(Section):
    """Access of senders to a channel, or to one account of it."""

    dm_policy: DmPolicy = DmPolicy.PAIRING
    """Senders who may write in direct chats. `pairing`: those of `allowFrom` and those whom the
    owner approved by a pairing code; anybody else gets such a code once. `allowlist`: the same
    without codes. `open`: everybody, if `allowFrom` has `*`. `disabled`: nobody."""
    allow_from: People = ()
    """Ids of senders who may write in direct chats."""
    group_policy: GroupPolicy = GroupPolicy.ALLOWLIST
    """Groups that are read. `allowlist`: those of `groups`, or where that is empty the senders of
    `groupAllowFrom`, else of `allowFrom`, in any group. `open`: every group. `disabled`: none."""
    group_allow_from: People | None = None
    """Ids of senders who may write in groups; `*` is everybody. A pairing admits to no group."""

    history_limit: int | None = Field(default=None, ge=0, le=1000)
    """Messages of a group that are kept until the agent is addressed; without it
    `messages.groupChat.historyLimit`."""

    @model_validator(mode="after")
    def _open_names_everybody(self) -> Self:
        if self.dm_policy is DmPolicy.OPEN and ANY not in self.allow_from:
            message = 'dmPolicy is open, so allowFrom must have "*": it lets everybody write'
            raise ValueError(message)
        return self

    def access(self, path: str, groups: Mapping[str, GroupAccessConfig]) -> AccessRules:
        """Returns the rules as the policy reads them; `path` is the key of the channel."""
        in_groups = self.group_allow_from
        return AccessRules(
            path,
            self.dm_policy,
            frozenset(self.allow_from),
            self.group_policy,
            None if in_groups is None else frozenset(in_groups),
            {id_: group.access for id_, group in groups.items()},
            self.history_limit,
        )
