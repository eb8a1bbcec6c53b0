"""Makes the run of a post: its id, its session, and its fenced text (pure)."""

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
"""Text of the preset `github`, where the mapping has no template of its own."""
_DEFAULT: Final = "Decide what your owner has to learn of this, and say only that."


class WebhookPost(Struct, frozen=True):
    """A post that has proved itself."""

    name: str
    payload: Any
    headers: Mapping[str, str]
    """By name in small letters, without those that prove it."""
    once: str
    """Text that two posts of the same event share; a random one where the sender gives none."""
    now: str


class Order(Struct, frozen=True):
    """Settings of the run that a post starts."""

    agent: AgentId
    is_wake: bool = False
    instruction: str = ""
    template: str = ""
    text: str | None = None
    """Text in place of the template."""
    session_key: str = ""
    model: str | None = None
    thinking: Any = None
    timeout: float | None = None
    reply_to: ReplyTo | None = None


def run_id(name: str, once: str) -> RunId:
    """Returns the id of the run of a post; the same for the same webhook and event."""
    digest = sha256(f"{name} {once}".encode()).hexdigest()
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
    """Returns the run of a post: the owner's instruction, and the words of the post in a fence.

    The words are those of the network, so that the run is tainted; it acts for the owner, who set
    the webhook up, and gives no command.
    """
    run = run_id(post.name, post.once)
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
        said = order.text
    elif order.template:
        said = templates.render(order.template, post.payload, post.headers, post.now)
    else:
        said = templates.whole(post.payload)
    scanned: Scan | None = scan(said) if said else None
    identity = fences.derived_id(run_id(post.name, post.once), said)
    fenced = fences.fence(said, "webhook", identity=identity, about=fences.about(scanned))
    instruction = order.instruction or _DEFAULT
    return f"The webhook {post.name!r} was called. {instruction}\n{fenced}"
