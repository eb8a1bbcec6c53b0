"""Access keys of `channels`: the senders who may write, and the groups that are read."""

from collections.abc import Mapping
from typing import Annotated, Self

from msgspec.structs import replace
from pydantic import BeforeValidator, Field, model_validator

from skerry.config.base import Section
from skerry.config.skill_settings import SkillName
from skerry.policy.channel_access import ANY, AccessRules, DmPolicy, GroupAccess, GroupPolicy

Person = Annotated[
    str, BeforeValidator(lambda value: str(value).strip()), Field(min_length=1, max_length=256)
]
"""Id of a sender on the platform, with or without `channel:`; some ids are written as numbers."""
People = Annotated[tuple[Person, ...], Field(max_length=1000)]


class TopicConfig(Section):
    """Settings of one topic of a group; each missing key takes the value of the group."""

    enabled: bool | None = None
    """Reads the messages of the topic."""
    allow_from: People | None = None
    """Ids of the senders who may write in the topic; `*` is everybody."""
    require_mention: bool | None = None
    """Answers only messages that mention the agent or reply to it."""
    system_prompt: str = Field(default="", max_length=10_000)
    """Text that is added to the system prompt in this topic, after that of the group."""
    agent_id: str = Field(default="", max_length=64)
    """Id of the agent that answers in the topic, regardless of the bindings."""
    skills: tuple[SkillName, ...] | None = Field(default=None, max_length=256)
    """Names of the skills that are offered in this topic; when unset, those of the group."""

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
    """Reads the messages of the group."""
    allow_from: People | None = None
    """Ids of the senders who may write in the group; `*` is everybody. When unset, those of the
    channel."""
    require_mention: bool = True
    """Answers only messages that mention the agent or reply to it. The messages between are given
    to the model once, as history with the next answered message."""
    system_prompt: str = Field(default="", max_length=10_000)
    """Text that is added to the system prompt in this group."""
    topics: dict[str, TopicConfig] = Field(default_factory=dict, max_length=1000)
    """Settings of topics or threads of the group, by id. `*` is every topic, and `1` is the topic
    General of Telegram, whose messages have no topic id."""
    skills: tuple[SkillName, ...] | None = Field(default=None, max_length=256)
    """Names of the skills that are offered in this group; when unset, all skills."""

    @property
    def access(self) -> GroupAccess:
        """Returns the access rules in the form of the policy."""
        allowed = None if self.allow_from is None else frozenset(self.allow_from)
        group = GroupAccess(
            self.enabled, allowed, self.require_mention, self.system_prompt, self.skills
        )
        topics = {id_: topic.over(group, id_) for id_, topic in self.topics.items()}
        return replace(group, topics=topics)


class AccessConfig(Section):
    """Access of senders to a channel, or to one account of it."""

    dm_policy: DmPolicy = DmPolicy.PAIRING
    """Senders who may write in direct chats. `pairing`: the ids in `allowFrom` and senders that the
    owner approved by a pairing code; any other sender is sent such a code once. `allowlist`: the
    same without sending codes. `open`: everybody, if `allowFrom` has `*`. `disabled`: nobody."""
    allow_from: People = ()
    """Ids of the senders who may write in direct chats."""
    group_policy: GroupPolicy = GroupPolicy.ALLOWLIST
    """Groups that are read. `allowlist`: the groups in `groups`; if that is empty, any group, but
    only messages of the senders in `groupAllowFrom`, else in `allowFrom`. `open`: every group.
    `disabled`: none."""
    group_allow_from: People | None = None
    """Ids of the senders who may write in groups; `*` is everybody. A pairing gives no access to
    groups."""

    history_limit: int | None = Field(default=None, ge=0, le=1000)
    """Messages of a group that are kept until the agent is addressed; when unset,
    `messages.groupChat.historyLimit`."""

    @model_validator(mode="after")
    def _open_names_everybody(self) -> Self:
        if self.dm_policy is DmPolicy.OPEN and ANY not in self.allow_from:
            message = 'dmPolicy is open: everybody may write, so allowFrom must have "*"'
            raise ValueError(message)
        return self

    def access(self, path: str, groups: Mapping[str, GroupAccessConfig]) -> AccessRules:
        """Returns the access rules in the form of the policy; `path` is the channel's key."""
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
