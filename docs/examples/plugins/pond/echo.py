"""A model that repeats the last message: implements the port of a model provider."""

from skerry.sdk.models import (
    ModelInfo,
    ModelReply,
    ModelRequest,
    ReplyListener,
    TextBlock,
    Usage,
)

MODELS = (ModelInfo("pond", "frog", "Frog"),)


class EchoProvider:
    """Answers with the last message; `listener` gets the text in pieces, as from a network."""

    api = "echo"

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Returns the response."""
        said = [getattr(message, "text", "") for message in request.history.messages]
        text = f"croak: {said[-1]}"
        listener.on_text(text)
        return ModelReply((TextBlock(text),), "stop", Usage(input=1, output=1))
