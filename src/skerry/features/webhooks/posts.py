"""Builds the run of a post: its id, session and fenced text (pure)."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from skerry.config.root import Config
from skerry.config.webhooks import MappingConfig
from skerry.features.webhooks import templates
from skerry.model.ids import AccountId, AgentId, ChannelId, RunId, SessionKey, agent_id
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.model.run import Purpose, RunRequest
from skerry.policy import fences
from skerry.policy.injection import Scan, scan

GITHUB: Final = MappingConfig.model_construct(
    name="github",
    message_template=(
        "GitHub event {{headers.x-github-event}} {{action}} in {{repository.full_name}} by"
        " {{sender.login}}\n{{pull_request.title}}{{issue.title}} {{pull_request.html_url}}"
        "{{issue.html_url}}\n{{pull_request.body}}{{comment.body}}{{head_commit.message}}"
    ),
)
"""Text of the preset `github`, for a mapping without a template."""
_DEFAULT: Final = "Decide what your owner has to learn of this, and say only that."


class WebhookPost(Struct, frozen=True):
    """A post with a valid proof."""

    name: str
    payload: Any
    headers: Mapping[str, str]
    """Headers by lower-case name, without those of the proof."""
    event_key: str
    """Text that all posts of the same event share; random when the sender supplies none."""
    now: str


class Order(Struct, frozen=True):
    """Settings of the run that a post starts."""

    agent: AgentId
    is_wake: bool = False
    instruction: str = ""
    template: str = ""
    text: str | None = None
    """Text that replaces the template."""
    session_key: str = ""
    model: str | None = None
    thinking: Any = None
    timeout: float | None = None
    reply_to: ReplyTo | None = None


def run_id(name: str, event_key: str) -> RunId:
    """Returns the id of the run of a post; the same for the same webhook and event."""
    digest = sha256(f"{name} {event_key}".encode()).hexdigest()
    return RunId(f"hook-{digest[:40]}")


def order_of(config: Config, mapping: MappingConfig) -> Order:
    """Returns the settings of a mapping."""
    template = mapping.message_template
    if not template and mapping.preset == "github":
        template = GITHUB.message_template
    to = None
    if mapping.channel and mapping.to:
        peer = Peer(PeerKind.DIRECT, mapping.to)
        to = ReplyTo(ChannelId(mapping.channel), AccountId(mapping.account), peer, "")
    return Order(
        agent_id(mapping.agent_id) if mapping.agent_id else config.agents.default_id,
        mapping.action == "wake",
        mapping.instruction,
        template,
        None,
        "",
        mapping.model,
        mapping.thinking,
        mapping.timeout_seconds,
        to,
    )


def request(post: WebhookPost, order: Order) -> RunRequest:
    """Returns the run of a post: the owner's instruction, and the post's text in a fence.

    The text is from the network, so that the run is tainted; it runs for the owner, who configured
    the webhook, and gives no command.
    """
    run = run_id(post.name, post.event_key)
    if order.is_wake:
        key = SessionKey.main(order.agent)
    elif order.session_key:
        key = SessionKey.parse(order.session_key, order.agent)
    else:
        uuid = UUID(bytes=sha256(run.encode()).digest()[:16], version=4)
        key = SessionKey(order.agent, ("hook", str(uuid)))
    return RunRequest(
        run,
        key,
        text(post, order),
        timeout=order.timeout,
        reply_to=order.reply_to,
        thinking=order.thinking,
        model=order.model,
        origin=Origin.OWNER,
        purpose=Purpose.HOOK,
        rights=Rights.NONE,
        scopes=(),
        text_origin=Origin.WEB,
    )


def text(post: WebhookPost, order: Order) -> str:
    """Returns the message for the model."""
    if order.text is not None:
        content = order.text
    elif order.template:
        content = templates.render(order.template, post.payload, post.headers, post.now)
    else:
        content = templates.whole(post.payload)
    scanned: Scan | None = scan(content) if content else None
    identity = fences.derived_id(run_id(post.name, post.event_key), content)
    fenced = fences.fence(content, "webhook", identity=identity, about=fences.about(scanned))
    instruction = order.instruction or _DEFAULT
    return f"The webhook {post.name!r} was called. {instruction}\n{fenced}"
