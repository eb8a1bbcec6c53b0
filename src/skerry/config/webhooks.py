"""Keys of the section `hooks` for webhooks: who may post, and what a post becomes."""

import re
from typing import Annotated, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from skerry.config.base import Section
from skerry.model.ids import agent_id
from skerry.model.thinking import ThinkingLevel

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
RESERVED: Final = frozenset({"wake", "agent"})
Bytes = Annotated[int, Field(ge=1, le=16_777_216)]
Rate = Annotated[int, Field(ge=1, le=100_000)]


class SignatureConfig(Section):
    """Signature of a post: HMAC-SHA256 with a secret that only the sender has."""

    secret: SecretStr
    """Secret that the sender signs with."""
    header: str = Field(default="x-skerry-signature", max_length=100)
    """Header of the signature, in hexadecimal, with or without `sha256=`."""
    timestamp_header: str | None = Field(default="x-skerry-timestamp", max_length=100)
    """Header of the time in seconds since 1970, which is signed as `TIME.BODY`; null where the
    sender signs the body alone."""
    tolerance_seconds: int = Field(default=300, ge=1, le=3600)
    """Seconds by which the signed time may differ from the present."""


class MappingConfig(Section):
    """One webhook: its name, what it proves itself by, and the run that it starts."""

    name: str
    """Last part of its path: `/hooks/<name>`."""
    preset: Literal["github"] | None = None
    """Settings of a known sender: `github` takes its signature, its delivery id and its events."""
    action: Literal["agent", "wake"] = "agent"
    """`agent` starts a run in a session of its own, `wake` one in the main conversation."""
    signature: SignatureConfig | None = None
    """Signature that takes the place of `hooks.token`."""
    instruction: str = Field(default="", max_length=10_000)
    """Words of yours that tell the agent what to do with a post."""
    message_template: str = Field(default="", max_length=10_000)
    """Text made of the post, such as `{{action}}: {{pull_request.title}}`; fenced for the model.
    Without one the whole body is."""
    agent_id: str | None = Field(default=None, max_length=64)
    """Agent that gets it; the default agent when unset."""
    model: str | None = Field(default=None, max_length=256)
    """`provider/model` of the run."""
    thinking: ThinkingLevel | None = None
    """Reasoning effort of the run."""
    timeout_seconds: float | None = Field(default=None, ge=0, le=86_400)
    """Time limit of the run; 0 is none."""
    channel: str | None = Field(default=None, max_length=64)
    """Platform that the answer is sent to; without one it is in the session alone."""
    account: str = Field(default="default", max_length=64)
    """Account of the platform."""
    to: str | None = Field(default=None, max_length=256)
    """Person on the platform; needed with `channel`."""
    max_body_bytes: Bytes | None = None
    """Limit of a body; `hooks.maxBodyBytes` when unset."""
    rate_per_minute: Rate | None = None
    """Posts a minute; `hooks.ratePerMinute` when unset."""

    @field_validator("name")
    @classmethod
    def _is_name(cls, value: str) -> str:
        if NAME.fullmatch(value) is None or value in RESERVED:
            raise ValueError(
                f"{value!r} is no name of a webhook: small letters, digits, -, _; not wake, agent"
            )
        return value

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.channel is None) != (self.to is None):
            raise ValueError("channel and to belong together")
        if self.preset == "github" and self.signature is None:
            raise ValueError("the preset github needs signature.secret, as GitHub sends no token")
        return self


class WebhooksConfig(Section):
    """Webhooks at `/hooks/`; off until `enabled` and a token are set."""

    enabled: bool = False
    """Answers posts to `/hooks/wake`, `/hooks/agent` and `/hooks/<name>`."""
    token: SecretStr | None = None
    """Token of webhooks, in the header `Authorization: Bearer` or `X-Skerry-Token`; it must not be
    the gateway's."""
    max_body_bytes: Bytes = 262_144
    """Limit of a body."""
    rate_per_minute: Rate = 60
    """Posts a minute to each webhook."""
    allow_request_session_key: bool = False
    """Lets a post to `/hooks/agent` name its session, within `allowedSessionKeyPrefixes`."""
    allowed_session_key_prefixes: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=("hook:",), max_length=20
    )
    """Beginnings of the session keys that a post may name."""
    allowed_agent_ids: tuple[str, ...] | None = Field(default=None, max_length=100)
    """Agents that a post to `/hooks/agent` may name; `*` is every agent, unset the default one."""
    mappings: tuple[MappingConfig, ...] = Field(default=(), max_length=100)
    """Webhooks with names of their own."""

    @field_validator("mappings")
    @classmethod
    def _names_are_unique(cls, value: tuple[MappingConfig, ...]) -> tuple[MappingConfig, ...]:
        names = [mapping.name for mapping in value]
        duplicates = sorted({name for name in names if names.count(name) > 1})
        if duplicates:
            raise ValueError(f"two webhooks have the name {duplicates[0]!r}")
        return value

    @model_validator(mode="after")
    def _has_a_key(self) -> Self:
        if not self.enabled:
            return self
        if self.token is None and not any(mapping.signature for mapping in self.mappings):
            raise ValueError("hooks.enabled needs hooks.token, or a mapping with a signature")
        bare = [mapping.name for mapping in self.mappings if not mapping.signature]
        if self.token is None and bare:
            raise ValueError(f"the webhook {bare[0]!r} needs hooks.token or a signature")
        return self

    def admits_agent(self, requested: str, default: str) -> bool:
        """Returns whether a post may name the agent."""
        if self.allowed_agent_ids is None:
            return agent_id(requested) == default
        return any(
            name == "*" or agent_id(name) == agent_id(requested) for name in self.allowed_agent_ids
        )
