"""Accepts a message: parses its commands and directives, and stores it in one unit."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from skerry.commands.directives import Directive, directives, in_order, remove_directives
from skerry.commands.queueing import parse
from skerry.commands.table import Command, CommandCall, CommandError, tell_command
from skerry.config.root import Config
from skerry.config.session import SendPolicy
from skerry.hooks.events import WEBCHAT
from skerry.lanes.active_runs import ActiveRun
from skerry.model.errors import KeyReusedError
from skerry.model.ids import SessionId
from skerry.model.inbound import InboundMessage, PeerKind, ReplyTo
from skerry.model.message import Message
from skerry.model.origin import Origin
from skerry.model.queue import QueueMode, QueueRules
from skerry.model.rights import MissingScopeError
from skerry.model.run import Inline, OpeningKind, Purpose, RunRequest, RunResult
from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel
from skerry.policy.decide import Actor
from skerry.ports.model import Models
from skerry.runtime.run_context import Runtime
from skerry.runtime.skill_use import with_skill
from skerry.sessions import session_hooks
from skerry.sessions.send_policy import sends_to
from skerry.sessions.session_choice import (
    Expiry,
    OpenedSession,
    SessionLimits,
    enter,
    notices,
    opening,
)
from skerry.store import (
    Unit,
    archive,
    group_history,
    inbound,
    last_routes,
    outbox,
    runs,
    session_listing,
    sessions,
)
from skerry.store.session_listing import SessionFilter


async def model_names(models: Models, config: Config) -> dict[str, str]:
    """Returns the full names of the usable models by full name, id and alias, all in lower case.

    If two models have the same id, it means the first.
    """
    models_by_name: dict[str, str] = {}
    refs = {model.ref.lower(): model.ref for model in await models.listing()}
    for ref in refs.values():
        models_by_name.setdefault(ref.partition("/")[2].lower(), ref)
    for ref, settings in config.agents.defaults.models.items():
        if settings.alias and ref.lower() in refs:
            models_by_name[settings.alias.lower()] = refs[ref.lower()]
    return models_by_name | refs


async def find_model(models: Models, config: Config, word: str) -> str | None:
    """Returns the full name of the usable model with the name, id or alias `word`; else None."""
    return (await model_names(models, config)).get(word.lower())


async def parse_message(runtime: Runtime, config: Config, request: RunRequest) -> RunRequest:
    """Returns the request with the opening, the directives and the text parsed from its text.

    Raises:
        MissingScopeError: the text has a command that the client's scopes do not cover.
    """
    if request.purpose is not Purpose.MESSAGE:
        return request
    parsed = await _opened(runtime, config, request)
    if parsed.text.startswith("/"):  # a text turn enters no module for nothing
        parsed = await with_skill(runtime, config, parsed)
    if parsed.skill is not None and parsed.skill.tool:
        return parsed
    if parsed.opening is not None and not parsed.opening.done:
        _refuse_beyond(runtime, parsed, parsed.opening.kind)
    command = runtime.commands.command_in(parsed) if parsed.scopes is not None else None
    if command is not None:
        _check(command[0], parsed)
    if "/" not in parsed.text or (parsed.opening is not None and parsed.opening.bare):
        return parsed
    return await _inlined(runtime, config, parsed)


def _refuse_beyond(runtime: Runtime, request: RunRequest, name: str) -> None:
    """Refuses the command `name` if the client lacks its scope. Raises as `_check`."""
    command = runtime.commands.find(name)
    if command is not None:
        _check(command, request)


def _check(command: Command, request: RunRequest) -> None:
    """Raises MissingScopeError if the client's scopes do not cover the command."""
    actor = Actor(rights=request.may, scopes=request.scopes)
    if (scope := command.decide(actor).scope) is not None:
        raise MissingScopeError(command.name, scope)


async def _inlined(runtime: Runtime, config: Config, request: RunRequest) -> RunRequest:
    """Returns the request without its directives, which apply to its run.

    Directives that the sender may not give, and unknown model names, stay in the text.
    """
    table = runtime.commands
    match = table.match(request.text)
    # Only the list of models tells where the name of a model ends.
    if match is not None and not (match[0].name == "model" and " " in match[1]):
        return request
    models = await model_names(runtime.models, config) if "/model" in request.text.lower() else {}
    accepted = [
        directive
        for directive in directives(request.text, lambda word: word.lower() in models)
        if (command := table.find(directive.name)) is not None and command.permits(request.may)
    ]
    settings = SessionSettings()
    applied: list[Directive] = []
    for directive in in_order(accepted):
        try:
            changes = _changes(directive, models)
        except CommandError:
            accepted = [entry for entry in accepted if entry.name != directive.name]
            continue
        _refuse_beyond(runtime, request, directive.name)
        settings = msgspec.structs.replace(settings, **changes)
        applied.append(directive)
    text = remove_directives(request.text, accepted)
    if not applied or not (text.strip() or request.images):
        return request
    sent = request.inline.sent if request.inline else request.text
    inline = Inline(sent, settings, status=any(directive.name == "status" for directive in applied))
    return replace(
        request,
        text=text,
        inline=inline,
        thinking=settings.thinking_level or request.thinking,
        queue_mode=settings.queue_mode or request.queue_mode,
    )


def _changes(directive: Directive, models: Mapping[str, str]) -> dict[str, Any]:
    match directive.name:
        case "think":
            return {"thinking_level": ThinkingLevel(directive.level)}
        case "verbose":
            return {"verbose_level": directive.level}
        case "reasoning":
            return {"reasoning_level": directive.level}
        case "model":
            return {"model": models[directive.level.lower()]}
        case "queue":
            return parse(directive.level)
        case _:
            return {}


async def _opened(runtime: Runtime, config: Config, request: RunRequest) -> RunRequest:
    """Returns the request with its opening, such as `/new`, parsed from the text.

    The owner may name a model directly after `/new`: `provider/model`, an id or an alias.
    """
    opened = opening(request, config.session.reset_triggers)
    new = opened.opening
    if new is None or new.kind is not OpeningKind.NEW or new.bare:
        return opened
    if opened.origin is not Origin.OWNER:
        return opened
    word, _, words = opened.text.partition(" ")
    model = await find_model(runtime.models, config, word)
    if model is None:
        return opened
    bare = not (words.strip() or opened.images)
    text = request.text.strip() if bare else words.strip()
    return replace(opened, text=text, opening=replace(new, model=model, bare=bare))


NOTICE: Final = -1
"""Block number of a notice: it is delivered before the blocks of the reply."""
_EXPIRIES: Final = frozenset(Expiry)


class EnteredMessage(Struct, frozen=True):
    """A message that was written to its conversation."""

    opened: OpenedSession
    entry: int
    """Number of its entry; 0 if hooks keep it out of the transcript."""
    tail: int
    """Number of the last entry before it."""
    settings: SessionSettings

    def apply(self, active: ActiveRun) -> None:
        """Updates the run, after the COMMIT of the unit."""
        active.request = self.opened.request
        active.session_id = self.opened.session_id
        active.entry = self.entry
        active.settings = active.request.settled(self.settings)
        if self.opened.reason in _EXPIRIES:
            active.ended_before = self.opened.ended


class QueuedMessage(Struct, frozen=True):
    """A queued message, with its session and its rules in the queue."""

    session_id: SessionId
    request: RunRequest
    settings: SessionSettings | None = None
    rules: QueueRules | None = None

    def apply(self, active: ActiveRun) -> None:
        """Updates the run, after the COMMIT of the unit."""
        active.session_id, active.request = self.session_id, self.request
        active.settings, active.rules = self.settings, self.rules


class Arrival(Struct, frozen=True):
    """A message with all values for its unit, which may run twice in the store's thread."""

    request: RunRequest
    entries: Sequence[Message]
    """The entries to write; empty if hooks keep them out of the transcript."""
    accepted_at: int
    new_id: SessionId
    """Id for the session that may begin with the message."""
    limits: SessionLimits | None
    """Lifetime of its session; None for a command and for a run without a person."""
    policy: SendPolicy
    notices: Mapping[str, Sequence[str]]
    """The parts for the platform, by the text of each notice that its session may begin with."""
    queue: Callable[[SessionSettings], QueueRules]
    """Returns the rules of the message in the queue of a session with these settings."""
    hooked: bool = False
    """True if hooks may change its entry, which is then written when the run starts."""
    arrived: InboundMessage | None = None
    """The platform's message; None for a request of a client or of the gateway."""
    last_given: int = 0
    """Number of the last message of its group in its context; 0 for none."""

    @classmethod
    def of(
        cls,
        runtime: Runtime,
        config: Config,
        active: ActiveRun,
        entries: Sequence[Message] = (),
        arrived: InboundMessage | None = None,
        last_given: int = 0,
    ) -> Self:
        """Returns the message of a run, with the values of the run's configuration."""
        request = active.request
        mode = request.queue_mode
        is_call = request.skill is not None and bool(request.skill.tool)
        if is_call or request.opening or runtime.commands.command_in(request) is not None:
            mode = QueueMode.OWN_RUN  # it is not sent to the model, so it needs a separate turn
        channel = request.reply_to.channel if request.reply_to else WEBCHAT
        queue = config.messages.queue
        limits, to = runtime.limits(request, config), request.reply_to
        texts = notices(request, limits) if to else ()
        cut = {text: runtime.delivery.parts(to, text) for text in texts if to}
        return cls(
            request,
            entries,
            active.accepted_at,
            SessionId(str(uuid.uuid4())),
            limits,
            config.session.send_policy,
            cut,
            lambda settings: queue.rules(channel, settings, mode),
            bool(runtime.hooks.before_message_write.handlers),
            arrived,
            last_given,
        )

    def accept(
        self, unit: Unit, *, free: bool
    ) -> runs.OpenRun | RunResult | EnteredMessage | QueuedMessage:
        """Writes the accepted message; returns the stored run if the id or the message is not new.

        Args:
            unit: The unit to write in.
            free: The lane is free, so the user's entry may be written at once, unless hooks may
                change it: accepting does not wait for hooks.

        Raises:
            KeyReusedError: the id belongs to another request.

        """
        request, at = self.request, self.accepted_at
        run_id = request.run_id
        if self.arrived is not None:
            earlier = inbound.take(unit, self.arrived, run_id)
            run_id = earlier or run_id
        stored = runs.find(unit, run_id)
        if stored is not None:
            if self.arrived is None and runs.has_other_content(unit, request):
                raise KeyReusedError(run_id)
            return stored
        if (to := request.reply_to) is not None and self.arrived is not None:
            _note_route(unit, request, to, at)
        self._take_history(unit)
        if request.expected is not None:
            sessions.expect(unit, request.key, request.expected)
        if free and not self.hooked:
            entered = self.enter(unit)
            opened = entered.opened
            runs.add(unit, opened.request, opened.session_id, entered.entry, at)
            return entered
        session_id, _ = sessions.ensure(unit, request.key, self.new_id, at)
        if free:
            queued = QueuedMessage(session_id, request)
        else:
            settings = request.settled(sessions.settings(unit, session_id))
            rules = self.queue(settings)
            queued = QueuedMessage(
                session_id, replace(request, queue_mode=rules.mode), settings, rules
            )
        runs.add(unit, queued.request, session_id, 0, at)
        return queued

    def _take_history(self, unit: Unit) -> None:
        """Removes the group messages in its context from the history, so that each is sent once."""
        if self.last_given:
            group_history.take(unit, str(self.request.key), self.last_given)

    def enter(self, unit: Unit) -> EnteredMessage:
        """Writes the message to its session, which may begin with it."""
        request, at = self.request, self.accepted_at
        opened = enter(unit, request, self.limits, self.new_id, at)
        session_id, tail = opened.session_id, opened.tail
        new_entries = [*opened.notes, *self.entries]
        if new_entries:
            spoken_at = at if self.limits is not None else 0
            sessions.append(
                unit, session_id, tail, request.run_id, new_entries, at, person_wrote_at=spoken_at
            )
        settings = sessions.settings(unit, session_id)
        if request.label and not _is_taken(unit, request):
            archive.change(unit, session_id, label=request.label, settings=settings)
        to = None
        if opened.notes:
            to = sends_to(self.policy, settings, request.key, request.reply_to)
        if to is not None:
            texts = [part for note in opened.notes for part in self.notices[note.text]]
            outbox.add(unit, request.run_id, NOTICE, to, texts, at)
        tail += len(opened.notes)
        return EnteredMessage(opened, tail + 1 if self.entries else 0, tail, settings)


def _note_route(unit: Unit, request: RunRequest, to: ReplyTo, at: int) -> None:
    """Stores the owner's last direct chat, which is the delivery target `last`."""
    if request.origin is Origin.OWNER and to.peer.kind is PeerKind.DIRECT:
        last_routes.note(unit, request.key, to, at)


def _is_taken(unit: Unit, request: RunRequest) -> bool:
    """Returns whether another conversation has taken the label since the request was checked."""
    sessions_with_label = session_listing.recent(
        unit, SessionFilter(request.key.agent, label=request.label), limit=2
    )
    return any(session.key != str(request.key) for session in sessions_with_label)


async def notify_session(runtime: Runtime, entered: EnteredMessage) -> None:
    """Notifies the person and plugins of a new or restored session, after the COMMIT."""
    opened = entered.opened
    if opened.notes and opened.request.reply_to is not None:
        runtime.delivery.wake(opened.request.reply_to)
    request, opening = opened.request, opened.request.opening
    if (
        opening is not None and opening.done and not opening.bare
    ):  # a bare one is answered as a command
        channel = request.reply_to.channel if request.reply_to else WEBCHAT
        call = CommandCall(opening.kind, request.text, request.key, channel, is_owner=True)
        tell_command(runtime.hooks, call, opened.session_id)
    if opened.began or opened.ended is not None:
        await session_hooks.opened(runtime.hooks, runtime.store, opened)
