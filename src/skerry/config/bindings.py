"""Section `bindings`: rules that assign conversations to agents."""

from pydantic import Field, field_validator

from skerry.config.base import Section
from skerry.model.inbound import PeerKind


class PeerMatch(Section):
    """A conversation of a platform."""

    kind: PeerKind
    """`direct` (also written `dm`), `group` or `channel`."""
    id: str = Field(default="*", min_length=1, max_length=256)
    """Id on the platform; when unset or `*`, every conversation of that kind."""

    @field_validator("kind", mode="before")
    @classmethod
    def _alias(cls, value: object) -> object:
        return "direct" if value == "dm" else value


class Match(Section):
    """Conditions on a message; all named conditions must match."""

    channel: str = Field(min_length=1, max_length=64)
    """The platform, such as `telegram`."""
    account_id: str | None = Field(default=None, min_length=1, max_length=128)
    """Account on the platform; when unset or `*`, every account."""
    peer: PeerMatch | None = None
    """The conversation."""
    guild_id: str | None = Field(default=None, min_length=1, max_length=128)
    """Server, on platforms with servers."""
    team_id: str | None = Field(default=None, min_length=1, max_length=128)
    """Team, on platforms with teams."""
    roles: tuple[str, ...] = Field(default=(), max_length=100)
    """Roles in the server; the sender needs one of them."""


class Binding(Section):
    """One rule; of the rules that match, the most specific one applies, then the first."""

    agent_id: str = Field(min_length=1, max_length=64)
    """Id of the agent that answers; it must be in `agents.list`."""
    match: Match
    """Conditions on a message."""
