"""The method `prompt.show`: returns the prompt of a conversation's next message."""

from typing import Final

from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.model.message import CHARS_PER_TOKEN


class PromptShowParams(Params):
    """Parameters of `prompt.show`; by default of the default agent's main conversation."""

    session_key: Name | None = None
    agent_id: Name | None = None


async def prompt_show(call: Call, params: PromptShowParams) -> Json:
    """Returns the prompt and each part's size: characters, tokens (4 characters each), share."""
    context = call.context
    key = call.session_key(params.session_key, params.agent_id)
    call.agent(key.agent)
    if context.show_prompt is None:
        raise RefusedError("this gateway runs no agents", code=ErrorCode.UNAVAILABLE)
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
