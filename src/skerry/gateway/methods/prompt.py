"""The method `prompt.show`: what the next message of a conversation would be sent with."""

from typing import Final

from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.model.message import CHARS_PER_TOKEN


class PromptShowParams(Params):
    """Parameters of `prompt.show`; without them it is the default agent's main conversation."""

    session_key: Name | None = None
    agent_id: Name | None = None


async def prompt_show(call: Call, params: PromptShowParams) -> Json:
    """Returns the system prompt and each part's cost: characters, tokens at 4 to one, share."""
    context = call.context
    key = call.session_key(params.session_key, params.agent_id)
    call.agent(key.agent)
    if context.show_prompt is None:
        raise RefusedError("this gateway runs no agent", code=ErrorCode.UNAVAILABLE)
    found = await context.show_prompt(key)
    total = sum(part.chars for part in found.parts)
    return {
        "sessionKey": found.session_key,
        "sessionId": found.session_id or None,
        "model": found.model,
        "systemPrompt": found.system,
        "parts": [
            {
                "name": part.name,
                "chars": part.chars,
                "tokens": -(-part.chars // CHARS_PER_TOKEN),
                "share": round(part.chars / total, 4),
            }
            for part in found.parts
        ],
        "files": [
            {
                "name": file.name,
                "rawChars": file.raw,
                "chars": file.chars,
                "truncated": file.chars < file.raw,
            }
            for file in found.files
        ],
        "chars": total,
        "tokens": -(-total // CHARS_PER_TOKEN),
        "entries": found.entries,
        "contextTokens": found.conversation_tokens or None,
        "notes": [*found.notes],
    }


METHODS: Final = (Method("prompt.show", PromptShowParams, prompt_show),)
