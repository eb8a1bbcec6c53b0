"""Requests the list of models of a provider, `/models`, and parses it tolerantly within limits.

Servers agree on the list and on `id`; keys for windows and abilities differ.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import httpx2
import msgspec
from msgspec import Struct

from skerry import __version__
from skerry.infra.http import BODY_LIMIT, HttpClient
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.errors import ModelError, ModelRequestError
from skerry.model.unanswered import ModelSilentError, ModelUnreachableError
from skerry.providers.failures import response_failure
from skerry.providers.model_apis import ModelApi
from skerry.providers.streaming_call import Endpoint, address_credentials

ASK_SECONDS: Final = 5.0
"""Seconds for the whole answer of one provider: a person waits for the list."""
LIST_BYTES: Final = 4 * 1024 * 1024
"""Limit on one answer; the longest known list, of 400 models with prices, has 700 kB."""
MAX_MODELS: Final = 1000
"""Limit on the models of one provider; the rest of its list is dropped."""
FRESH_SECONDS: Final = 600.0
"""Seconds for which an answer is cached."""
FAILED_SECONDS: Final = 30.0
"""Seconds for which a failure is cached: the server may just be starting."""

_MAX_ANSWERS: Final = 64
_MAX_ID_CHARS: Final = 256
_MAX_TOKENS: Final = 100_000_000
_NOT_CHAT: Final = re.compile(
    r"embed|whisper|\btts\b|dall-e|moderation|transcri|rerank|guard|realtime|speech|\bsora\b"
    r"|gpt-image|imagen|\bveo\b|\blyria\b|babbage|davinci-00|-ocr\b",
    re.IGNORECASE,
)
"""Names of models without a chat: embeddings, sound, pictures, moderation."""
_WINDOWS: Final = (
    "context_length",  # OpenRouter, Together
    "context_window",  # Groq
    "max_context_length",  # Mistral
    "max_model_len",  # vLLM
    "max_input_tokens",  # Anthropic
    "inputTokenLimit",  # Google
)
_ANSWERS: Final = ("max_completion_tokens", "max_output_tokens", "outputTokenLimit")


class Offered(Struct, frozen=True):
    """A model as its provider describes it; None for facts that it does not give."""

    id: str
    name: str = ""
    context_window: int | None = None
    max_tokens: int | None = None
    sees: bool | None = None
    """True when it accepts images."""


Answers = dict[Endpoint, tuple[float, list[Offered] | ModelError]]
"""Answers by endpoint, with their end of validity in seconds of a monotonic clock."""


async def answer(
    http: HttpClient,
    api: ModelApi,
    endpoint: Endpoint,
    answers: Answers,
    monotonic: Callable[[], float],
) -> list[Offered] | ModelError:
    """Returns the models of an endpoint, or the error of the request; cached in `answers`."""
    cached = answers.get(endpoint)
    if cached is not None and monotonic() < cached[0]:
        return cached[1]
    listed: list[Offered] | ModelError
    try:
        listed = await ask(http, api, endpoint)
    except ModelError as error:
        listed = error
    if len(answers) >= _MAX_ANSWERS:
        answers.clear()
    holds = FAILED_SECONDS if isinstance(listed, ModelError) else FRESH_SECONDS
    answers[endpoint] = monotonic() + holds, listed
    return listed


async def ask(http: HttpClient, api: ModelApi, endpoint: Endpoint) -> list[Offered]:
    """Requests and returns the chat models of an endpoint, in its order.

    Raises:
        ModelError: the endpoint cannot be reached, refuses, or does not return a list of models
            within `ASK_SECONDS`.
    """
    url = httpx2.URL(api.models_url(endpoint.base_url))
    headers = {"host": url.netloc.decode("ascii"), **_headers(api, endpoint)}
    request = httpx2.Request("GET", url, headers=headers, extensions={BODY_LIMIT: LIST_BYTES})
    with anyio.move_on_after(ASK_SECONDS):
        try:
            response = await http.transport.handle_async_request(request)
            try:
                body = await response.aread()
            finally:
                await response.aclose()
        except httpx2.TransportError as error:
            text = endpoint.hidden(str(error).encode()).decode(errors="replace")
            raise ModelUnreachableError(
                f"Cannot ask {endpoint.name} at {url.host} for its models: {text.rstrip('.')}."
            ) from error
        return _read(endpoint, response, body)
    raise ModelSilentError(f"{endpoint.name} did not list its models within {ASK_SECONDS:g} s.")


def _read(endpoint: Endpoint, response: httpx2.Response, body: bytes) -> list[Offered]:
    if response.status_code != httpx2.codes.OK:
        text = endpoint.hidden(body[:65_536])
        raise response_failure(response.status_code, response.headers, text, endpoint.name)
    models = parse(body)
    if models is None:
        raise ModelRequestError(f"{endpoint.name} did not return a list of models.")
    return models


def _headers(api: ModelApi, endpoint: Endpoint) -> dict[str, str]:
    headers = {"accept": "application/json", "accept-encoding": "identity"}
    headers["user-agent"] = f"skerry/{__version__}"
    headers |= api.headers(endpoint)
    headers |= address_credentials(endpoint.base_url)
    return headers | {name.lower(): value for name, value in endpoint.headers}


def parse(body: bytes) -> list[Offered] | None:
    """Returns the chat models in a response; None for a response that is no list of models."""
    try:
        parsed = msgspec.json.decode(body)
    except UNREADABLE:
        return None
    if isinstance(parsed, dict):  # Google has them under `models`, Together has no object
        parsed = parsed.get("data", parsed.get("models"))
    if not isinstance(parsed, list):
        return None
    models = (_offered(entry) for entry in parsed if isinstance(entry, dict))
    return list({model.id: model for model in models if model is not None}.values())[:MAX_MODELS]


def _offered(entry: Mapping[str, Any]) -> Offered | None:
    """Returns a model; None for a model without chat or without a usable name."""
    name = entry.get("id", entry.get("name"))
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_ID_CHARS or not name.isprintable():
        return None
    name = name.removeprefix("models/")
    if _NOT_CHAT.search(name) or not _converses(entry):
        return None
    display_name = next(
        (entry[key] for key in ("display_name", "displayName", "name") if key in entry), ""
    )
    usable = (
        isinstance(display_name, str)
        and display_name.isprintable()
        and not display_name.startswith("models/")
    )
    top = _under(entry, "top_provider")  # OpenRouter: the provider that answers
    return Offered(
        name,
        display_name[:_MAX_ID_CHARS] if usable else "",
        _number(top, _WINDOWS) or _number(entry, _WINDOWS),
        _number(top, _ANSWERS) or _number(entry, _ANSWERS),
        _sees(entry),
    )


def _converses(entry: Mapping[str, Any]) -> bool:
    methods = entry.get("supportedGenerationMethods")  # Google
    if isinstance(methods, list) and "generateContent" not in methods:
        return False
    if _under(entry, "capabilities").get("completion_chat") is False:  # Mistral
        return False
    kind = entry.get("type")  # Together; Anthropic's is `model`
    return kind not in {"embedding", "image", "audio", "video", "rerank", "moderation"}


def _sees(entry: Mapping[str, Any]) -> bool | None:
    for section in (_under(entry, "architecture"), entry):  # OpenRouter, xAI
        listed = section.get("input_modalities")
        if isinstance(listed, list):
            return "image" in listed
    able = _under(entry, "capabilities")
    for name in ("vision", "image_input"):  # Mistral, Anthropic
        flag = able.get(name)
        flag = flag.get("supported") if isinstance(flag, dict) else flag
        if isinstance(flag, bool):
            return flag
    return None


def _under(entry: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = entry.get(name)
    return section if isinstance(section, dict) else {}


def _number(entry: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    numbers = (entry.get(name) for name in names)
    return next(
        (number for number in numbers if type(number) is int and 0 < number <= _MAX_TOKENS), None
    )
