"""Reads from a message, before it is accepted, what it does to its conversation and its run.

That is stored with the run, so that a repetition and a restart do the same.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from skerry.commands.directives import Directive, directives, in_order, without
from skerry.commands.queueing import parse
from skerry.commands.table import Command, CommandError
from skerry.config.root import Config
from skerry.model.origin import Origin
from skerry.model.rights import MissingScopeError
from skerry.model.run import Inline, OpeningKind, Purpose, RunRequest
from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel
from skerry.policy.decide import Actor
from skerry.runtime.model_lookup import named, names
from skerry.runtime.services import Runtime
from skerry.sessions.opening import opening


async def understood(runtime: Runtime, config: Config, request: RunRequest) -> RunRequest:
    """Returns the request with what its text means beside what it says."""
    found = await _opened(runtime, config, request)
    if found.opening is not None and not found.opening.done:
        _refuse_beyond(runtime, found, found.opening.kind)
    if found.purpose is not Purpose.MESSAGE:
        return found
    given = runtime.commands.given(found) if found.scopes is not None else None
    if given is not None:
        _check(given[0], found)
    if "/" not in found.text or (found.opening is not None and found.opening.bare):
        return found
    return await _inlined(runtime, config, found)


def _refuse_beyond(runtime: Runtime, request: RunRequest, name: str) -> None:
    """Refuses the command of that name where the client lacks its scope. Raises as `_check`."""
    command = runtime.commands.find(name)
    if command is not None:
        _check(command, request)


def _check(command: Command, request: RunRequest) -> None:
    """Refuses a command that the client's scopes do not cover.

    Raises:
        MissingScopeError: they do not.
    """
    actor = Actor(rights=request.may, scopes=request.scopes)
    if (scope := command.decide(actor).scope) is not None:
        raise MissingScopeError(command.name, scope)


async def _inlined(runtime: Runtime, config: Config, request: RunRequest) -> RunRequest:
    """Returns the request without its directives, which hold for its run.

    Those that the sender may not give are words, and so is a name that no model has.
    """
    table = runtime.commands
    given = table.match(request.text)
    # Only whoever knows the models can tell where the name of one ends.
    if given is not None and not (given[0].name == "model" and " " in given[1]):
        return request
    models = await names(runtime.models, config) if "/model" in request.text.lower() else {}
    found = [
        directive
        for directive in directives(request.text, lambda word: word.lower() in models)
        if (command := table.find(directive.name)) is not None and command.permits(request.may)
    ]
    settings = SessionSettings()
    done: list[Directive] = []
    for one in in_order(found):
        try:
            changes = _changes(one, models)
        except CommandError:
            found = [other for other in found if other.name != one.name]
            continue
        _refuse_beyond(runtime, request, one.name)
        settings = msgspec.structs.replace(settings, **changes)
        done.append(one)
    text = without(request.text, found)
    if not done or not (text.strip() or request.images):
        return request
    inline = Inline(request.text, settings, status=any(one.name == "status" for one in done))
    return replace(
        request,
        text=text,
        inline=inline,
        thinking=settings.thinking_level or request.thinking,
        queue_mode=settings.queue_mode or request.queue_mode,
    )


def _changes(one: Directive, models: Mapping[str, str]) -> dict[str, Any]:
    match one.name:
        case "think":
            return {"thinking_level": ThinkingLevel(one.level)}
        case "verbose":
            return {"verbose_level": one.level}
        case "reasoning":
            return {"reasoning_level": one.level}
        case "model":
            return {"model": models[one.level.lower()]}
        case "queue":
            return parse(one.level)
        case _:
            return {}


async def _opened(runtime: Runtime, config: Config, request: RunRequest) -> RunRequest:
    """Returns the request with what its text does to the conversation.

    The owner may name a model right behind `/new`: by `provider/model`, by its id or its alias.
    """
    found = opening(request, config.session.reset_triggers)
    wanted = found.opening
    if wanted is None or wanted.kind is not OpeningKind.NEW or wanted.bare:
        return found
    if found.origin is not Origin.OWNER:
        return found
    word, _, rest = found.text.partition(" ")
    model = await named(runtime.models, config, word)
    if model is None:
        return found
    bare = not (rest.strip() or found.images)
    text = request.text.strip() if bare else rest.strip()
    return replace(found, text=text, opening=replace(wanted, model=model, bare=bare))
