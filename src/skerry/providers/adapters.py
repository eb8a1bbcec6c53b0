"""The adapter of a wire format, imported when one of its endpoints is first used."""

from skerry.config.models import Api
from skerry.infra.http import HttpClient
from skerry.ports.model import ModelProvider
from skerry.providers.compat import CompatProvider
from skerry.providers.late import anthropic, google, responses
from skerry.providers.streaming_call import Endpoint


def adapter(http: HttpClient, endpoint: Endpoint) -> ModelProvider:
    """Returns the adapter for the wire format of `endpoint`."""
    match Api(endpoint.api):
        case Api.OPENAI_COMPLETIONS:
            return CompatProvider(http, endpoint)
        case api:
            match api:
                case Api.OPENAI_RESPONSES:
                    return responses.ResponsesProvider(http, endpoint)
                case Api.ANTHROPIC_MESSAGES:
                    return anthropic.AnthropicProvider(http, endpoint)
                case Api.GOOGLE_GENERATIVE_AI:
                    return google.GoogleProvider(http, endpoint)
