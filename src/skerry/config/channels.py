"""Section `channels`: accounts on chat platforms, and the rules for each platform."""

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

from pydantic import Field, HttpUrl, SecretStr, ValidationError, field_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from skerry.config.base import Section
from skerry.config.channel_access import AccessConfig, GroupAccessConfig
from skerry.config.memory_search import overlaid
from skerry.config.replies import ChannelStreaming, StreamingConfig
from skerry.config.tools import ToolListsConfig
from skerry.infra.channels import PLATFORMS
from skerry.model.ids import AccountId
from skerry.policy.channel_access import AccessRules
from skerry.policy.tool_policy import GroupRules

DEFAULT: AccountId = AccountId("default")
"""Account that has the settings of the platform's section."""
AccountName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
Root = Annotated[HttpUrl, Field(max_length=512)]
"""Address of a platform's server."""
_SENDER_KINDS = ("id:", "e164:", "username:", "name:")


def revealed(secret: SecretStr | None) -> str:
    """Returns the text of a secret; empty for None."""
    return secret.get_secret_value() if secret else ""


class ChannelGroup(GroupAccessConfig):
    """Rules of one group of a channel."""

    tools: ToolListsConfig = ToolListsConfig.model_construct()
    """Lists of tools for this group."""
    tools_by_sender: dict[str, ToolListsConfig] = Field(default_factory=dict)
    """Lists of tools by sender: `id:`, `e164:`, `username:` or `name:` and the value, or `*`. A
    `name:` can only remove tools, because senders can change their names."""

    @field_validator("tools_by_sender", mode="before")
    @classmethod
    def _typed_keys(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        keys = {key: str(key).strip().lower() for key in value}
        for key, folded in keys.items():
            if folded != "*" and not folded.startswith(_SENDER_KINDS):
                message = f"{key!r} has no type; write 'id:{key}' for the id of a sender"
                raise ValueError(message)
        return {keys[key]: lists for key, lists in value.items()}

    @property
    def rules(self) -> GroupRules:
        """Returns the rules as the policy reads them."""
        by_sender = {key: lists.lists for key, lists in self.tools_by_sender.items()}
        return GroupRules(self.tools.lists, by_sender)


class ChannelAccount(AccessConfig):
    """Settings of a platform, which each of its accounts may override."""

    enabled: bool = True
    """Connects the account; with `false` its settings are kept but not used."""
    name: str = Field(default="", max_length=64)
    """Name of the account for people."""
    groups: dict[str, ChannelGroup] = Field(default_factory=dict)
    """Rules by group id; `*` is every group."""
    streaming: StreamingConfig = StreamingConfig.model_construct()
    """Answers that grow in one message; also `"partial"` for `{mode: "partial"}`."""
    block_streaming: bool | None = None
    """Sends an answer in blocks while it is generated; when unset, the value of
    `agents.defaults.blockStreamingDefault`."""

    not_shared: ClassVar[tuple[str, ...]] = ("name",)
    """Fields that an account does not inherit from its platform, such as credentials."""

    login: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Keys of the credentials, each with the prompt for a person."""

    login_elsewhere: ClassVar[Mapping[str, tuple[tuple[str, str], ...]]] = MappingProxyType({})
    """Logins in another program, `oauth` in a browser and `qr` on a phone, each with its keys and
    their prompts."""

    @property
    def is_configured(self) -> bool:
        """Returns whether the settings are sufficient to connect; platforms override this."""
        return False


class ChannelConfig(ChannelAccount):
    """Rules of one channel."""

    accounts: Mapping[AccountName, ChannelAccount] = Field(default_factory=dict, max_length=64)
    """Further accounts by name; each key that an account does not set takes the platform's
    value."""

    @classmethod
    def for_key(cls, key: str) -> type[Section]:
        """Returns the class of the section of this platform."""
        platform = PLATFORMS.get(key)
        section: type[Section] = platform.section if platform else cls
        return section

    @property
    def names(self) -> list[AccountId]:
        """Returns the names of all accounts, including those without credentials."""
        is_own = self.is_configured or "enabled" in self.model_fields_set
        default_names = [DEFAULT] if is_own and DEFAULT not in self.accounts else []
        return [*default_names, *map(AccountId, self.accounts)]

    def account(self, name: str) -> ChannelAccount | None:
        """Returns the settings of an account over those of the platform; None if unknown."""
        settings = self.accounts.get(name)
        if settings is not None:
            unshared = {key: getattr(settings, key) for key in self.not_shared}
            shared: ChannelAccount = self
            return overlaid(shared, settings).model_copy(update=unshared)
        return self if name in self.names else None

    def access_rules(self, path: str, account: str) -> AccessRules:
        """Returns the access rules of an account, configured or not; `path` is the platform's key.

        The result is cached.
        """
        rules = self._rules_by_account.get(account)
        if rules is None:
            settings = self.account(account) or self
            rules = self._rules_by_account[account] = settings.access(path, settings.groups)
        return rules

    def streaming_of(self, account: str) -> ChannelStreaming:
        """Returns the settings for sending an answer while it is generated."""
        settings = self.account(account) or self
        return ChannelStreaming(settings.streaming.mode, settings.block_streaming)

    @cached_property
    def _rules_by_account(self) -> dict[str, AccessRules]:
        return {}

    def connected(self) -> dict[AccountId, ChannelAccount]:
        """Returns the accounts to connect, by name."""
        every = {name: self.account(name) for name in self.names}
        return {
            name: settings
            for name, settings in every.items()
            if self.enabled and settings and settings.enabled and settings.is_configured
        }


def checked_channels(value: Any) -> Any:
    """Returns the sections of the built-in platforms, each validated by its class.

    Raises:
        ValidationError: sections are not valid; the errors have key paths below `channels`.
    """
    if not isinstance(value, Mapping):
        return value
    sections, errors = dict(value), list[InitErrorDetails]()
    for name, section in value.items():
        if name not in PLATFORMS or isinstance(section, Section):
            continue
        try:
            sections[name] = ChannelConfig.for_key(name).model_validate(section)
        except ValidationError as error:
            errors += [
                InitErrorDetails(
                    type=PydanticCustomError(fault["type"], "{text}", {"text": fault["msg"]}),
                    loc=(name, *fault["loc"]),
                    input=None,
                )
                for fault in error.errors(include_url=False, include_input=False)
            ]
    if errors:
        raise ValidationError.from_exception_data("channels", errors)
    return sections
