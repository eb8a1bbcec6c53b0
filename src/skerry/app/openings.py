"""Reads `/new`, `/reset` and `/resume` from a message before it is accepted."""

from dataclasses import replace

from skerry.agent.runtime import Runtime
from skerry.model.origin import Origin
from skerry.model.run import OpeningKind, RunRequest
from skerry.sessions.opening import opening


async def opened(runtime: Runtime, request: RunRequest) -> RunRequest:
    """Return the request with what its text does to the conversation.

    The owner may name a model right behind `/new`: by `provider/model`, by its id or its alias.
    """
    found = opening(request, runtime.config().session.reset_triggers)
    wanted = found.opening
    if wanted is None or wanted.kind is not OpeningKind.NEW or wanted.bare:
        return found
    if found.origin is not Origin.OWNER:
        return found
    word, _, rest = found.text.partition(" ")
    model = await _named(runtime, word)
    if model is None:
        return found
    bare = not (rest.strip() or found.images)
    text = request.text.strip() if bare else rest.strip()
    return replace(found, text=text, opening=replace(wanted, model=model, bare=bare))


async def _named(runtime: Runtime, word: str) -> str | None:
    """Return the full name of the model that can be used and is called `word`."""
    aliases = {
        one.alias.lower(): ref
        for ref, one in runtime.config().agents.defaults.models.items()
        if one.alias
    }
    wanted = aliases.get(word.lower(), word).lower()
    for one in await runtime.models.listing():
        if wanted in {one.ref.lower(), one.id.lower()}:
            return one.ref
    return None
