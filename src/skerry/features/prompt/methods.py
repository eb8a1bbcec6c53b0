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
    report = await context.show_prompt(key)
    total = sum(part.chars for part in report.parts)
    return {
        "sessionKey": report.session_key,
        "sessionId": report.session_id or None,
        "model": report.model,
        "systemPrompt": report.system,
        "parts": [
            {
                "name": part.name,
                "chars": part.chars,
                "tokens": -(-part.chars // CHARS_PER_TOKEN),
                "share": round(part.chars / total, 4),
            }
            for part in report.parts
        ],
        "files": [
            {
                "name": file.name,
                "rawChars": file.raw,
                "chars": file.chars,
                "truncated": file.chars < file.raw,
            }
            for file in report.files
        ],
        "chars": total,
        "tokens": -(-total // CHARS_PER_TOKEN),
        "entries": report.entries,
        "contextTokens": report.conversation_tokens or None,
        "notes": [*report.notes],
    }


METHODS: Final = (Method("prompt.show", PromptShowParams, prompt_show),)
