"""The adapter of a wire format, imported when one of its endpoints is first used."""

from skerry.config.models import Api
from skerry.infra.http import HttpClient
from skerry.ports.model import ModelProvider
from skerry.providers.compat import CompatProvider
from skerry.providers.streaming_call import Endpoint


def adapter(http: HttpClient, endpoint: Endpoint) -> ModelProvider:
    """Returns the adapter for the wire format of `endpoint`."""
    match Api(endpoint.api):
        case Api.OPENAI_COMPLETIONS:
            return CompatProvider(http, endpoint)
        case Api.OPENAI_RESPONSES:
            from skerry.providers.responses import (  # noqa: PLC0415 - start-up pays for what it uses
                ResponsesProvider,
            )

            return ResponsesProvider(http, endpoint)
        case Api.ANTHROPIC_MESSAGES:
            from skerry.providers.anthropic import AnthropicProvider  # noqa: PLC0415 - as above

            return AnthropicProvider(http, endpoint)
        case Api.GOOGLE_GENERATIVE_AI:
            from skerry.providers.google import GoogleProvider  # noqa: PLC0415 - as above

            return GoogleProvider(http, endpoint)
