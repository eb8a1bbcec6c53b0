"""Webhook keys of section `hooks`: authentication of posts, and the runs that they start."""

import re
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator

from skerry.config.base import Section
from skerry.config.session import SPAN, duration
from skerry.infra.clock import DAY_MS
from skerry.model.ids import agent_id
from skerry.model.thinking import ThinkingLevel

NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
RESERVED: Final = frozenset({"wake", "agent"})
Bytes = Annotated[int, Field(ge=1, le=16_777_216)]
Rate = Annotated[int, Field(ge=1, le=100_000)]


class SignatureConfig(Section):
    """Signature of a post: HMAC-SHA256 with a secret that is shared with the sender."""

    secret: SecretStr
    """Secret with which the sender signs."""
    header: str = Field(default="x-skerry-signature", max_length=100)
    """Header of the signature, in hexadecimal, with or without `sha256=`."""
    timestamp_header: str | None = Field(default="x-skerry-timestamp", max_length=100)
    """Header of the time in seconds since 1970; the signed text is `TIME.BODY`. With null, the
    signed text is the body."""
    tolerance_seconds: int = Field(default=300, ge=1, le=3600)
    """Seconds by which the signed time may differ from the present time."""


class MappingConfig(Section):
    """One webhook: its name, its authentication, and the run that it starts."""

    name: str
    """Last part of its path: `/hooks/<name>`."""
    preset: Literal["github"] | None = None
    """Built-in settings: `github` uses the signature, delivery id and event headers of GitHub."""
    action: Literal["agent", "wake"] = "agent"
    """`agent` starts a run in a separate session, `wake` starts one in the main conversation."""
    signature: SignatureConfig | None = None
    """Signature that is required instead of `hooks.token`."""
    instruction: str = Field(default="", max_length=10_000)
    """Your instruction to the agent for each post."""
    message_template: str = Field(default="", max_length=10_000)
    """Template of the text for the model, such as `{{action}}: {{pull_request.title}}`; the model
    receives the text as untrusted. When empty, the text is the whole body."""
    agent_id: str | None = Field(default=None, max_length=64)
    """Agent that runs; the default agent when unset."""
    model: str | None = Field(default=None, max_length=256)
    """`provider/model` of the run."""
    thinking: ThinkingLevel | None = None
    """Reasoning effort of the run."""
    timeout_seconds: float | None = Field(default=None, ge=0, le=86_400)
    """Time limit of the run in seconds; 0 is no limit."""
    channel: str | None = Field(default=None, max_length=64)
    """Platform to which the answer is sent; when unset, the answer is only in the session."""
    account: str = Field(default="default", max_length=64)
    """Account of the platform."""
    to: str | None = Field(default=None, max_length=256)
    """Person on the platform; required with `channel`."""
    max_body_bytes: Bytes | None = None
    """Maximum bytes of a body; `hooks.maxBodyBytes` when unset."""
    rate_per_minute: Rate | None = None
    """Maximum posts per minute; `hooks.ratePerMinute` when unset."""

    @field_validator("name")
    @classmethod
    def _is_name(cls, value: str) -> str:
        if NAME.fullmatch(value) is None or value in RESERVED:
            raise ValueError(
                f"{value!r} is not a name of a webhook: use a-z, 0-9, - and _; not 'wake', 'agent'"
            )
        return value

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if (self.channel is None) != (self.to is None):
            raise ValueError("channel and to must be set together")
        if self.preset == "github" and self.signature is None:
            raise ValueError("preset github requires signature.secret: GitHub sends no token")
        return self


class WebhooksConfig(Section):
    """Webhooks at `/hooks/`; disabled until `enabled` and a token are set."""

    enabled: bool = False
    """Answers posts to `/hooks/wake`, `/hooks/agent` and `/hooks/<name>`."""
    token: SecretStr | None = None
    """Token of webhooks, in the header `Authorization: Bearer` or `X-Skerry-Token`; it must differ
    from the gateway's token."""
    max_body_bytes: Bytes = 262_144
    """Maximum bytes of a body."""
    rate_per_minute: Rate = 60
    """Maximum posts per minute to each webhook."""
    session_retention: Annotated[int, BeforeValidator(duration), SPAN] = Field(
        default=30 * DAY_MS, ge=60_000
    )
    """Time for which the conversation of a post is kept, such as `30d`, unless a person writes in
    it or pins it; then it is archived, and removed a day later."""
    keep_sessions: int = Field(default=2000, ge=1, le=100_000)
    """Number of conversations of posts that are kept; above it, the longest unused ones are
    archived and removed in the same way."""
    allow_request_session_key: bool = False
    """Lets a post to `/hooks/agent` choose its session key, within `allowedSessionKeyPrefixes`."""
    allowed_session_key_prefixes: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=("hook:",), max_length=20
    )
    """Prefixes of the session keys that a post may choose."""
    allowed_agent_ids: tuple[str, ...] | None = Field(default=None, max_length=100)
    """Agents that a post to `/hooks/agent` may choose; `*` is every agent. When unset, only the
    default agent."""
    mappings: tuple[MappingConfig, ...] = Field(default=(), max_length=100)
    """Webhooks with configured names."""

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
            raise ValueError("hooks.enabled requires hooks.token, or a mapping with a signature")
        bare = [mapping.name for mapping in self.mappings if not mapping.signature]
        if self.token is None and bare:
            raise ValueError(f"the webhook {bare[0]!r} requires hooks.token or a signature")
        return self

    def admits_agent(self, requested: str, default: str) -> bool:
        """Returns whether a post may choose the agent."""
        if self.allowed_agent_ids is None:
            return agent_id(requested) == default
        return any(
            name == "*" or agent_id(name) == agent_id(requested) for name in self.allowed_agent_ids
        )
