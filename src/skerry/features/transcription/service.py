"""Transcribes recordings with APIs like that of OpenAI: `POST /audio/transcriptions`."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from skerry.config.models import Mode
from skerry.config.root import Config
from skerry.config.tools_media import AudioConfig, AudioModel
from skerry.model.errors import BudgetError
from skerry.model.message import Cost, Usage
from skerry.model.run import RunFailure
from skerry.model.undelivered import MediaError
from skerry.ports.model_candidates import Accounts, CallTarget, ModelCallEnded
from skerry.providers.builtin_providers import known_provider
from skerry.sdk.channel_host import AccountHttp, Fetched, FormFile, Outcome

logger = logging.getLogger(__name__)

MAX_ANSWER: Final = 1_000_000
"""Maximum number of bytes read of a response."""
CUT: Final = " [the transcript was cut here]"
_OK: Final = 200


class _Usage(Struct, frozen=True):
    seconds: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0


class _Answer(Struct, frozen=True):
    text: str
    duration: float = 0.0
    usage: _Usage | None = None


_answers = msgspec.json.Decoder(_Answer)


class _Endpoint(Struct, frozen=True):
    """Address of a model with its credentials."""

    provider: str
    url: str
    headers: dict[str, str]


class Transcriptions:
    """The models of `tools.media.audio`. Implements `ports.transcription.Transcriber`."""

    def __init__(
        self, config: Callable[[], Config], environ: Mapping[str, str], accounts: Accounts
    ) -> None:
        self._config = config
        self._environ = environ
        self._accounts = accounts

    async def transcribe(self, data: bytes, name: str, mime: str, target: CallTarget) -> str:
        """Returns the transcript of a recording; tries each model until one answers."""
        audio = self._config().tools.media.audio
        if len(data) > audio.max_bytes:
            message = f"The recording has {len(data)} bytes; the limit is {audio.max_bytes}."
            raise MediaError(message)
        try:
            self._accounts.allow(target)
        except BudgetError as error:
            raise MediaError(str(error)) from error
        failure = MediaError("No transcription provider is configured.")
        file = FormFile(name or "voice.ogg", mime or "audio/ogg", data)
        with anyio.move_on_after(audio.timeout_seconds) as scope:
            for model in audio.models:
                try:
                    return await self._call_model(audio, model, file, target)
                except MediaError as error:
                    logger.warning("%s did not transcribe a recording: %s", model.model, error)
                    failure = error
        if scope.cancelled_caught:
            raise MediaError(f"The transcript took more than {audio.timeout_seconds:g} s.")
        raise failure

    async def _call_model(
        self, audio: AudioConfig, model: AudioModel, file: FormFile, target: CallTarget
    ) -> str:
        endpoint = self._endpoint(model)
        fields: dict[str, str | FormFile] = {"model": model.model, "response_format": "json"}
        if audio.language:
            fields["language"] = audio.language
        if audio.prompt:
            fields["prompt"] = audio.prompt
        http, began = AccountHttp([endpoint.url]), time.monotonic()
        try:
            fetched = await http.post_form(
                f"{endpoint.url}/audio/transcriptions",
                {**fields, "file": file},
                headers=endpoint.headers,
                seconds=audio.timeout_seconds,
            )
        finally:
            with anyio.CancelScope(shield=True):
                await http.close()
        seconds = time.monotonic() - began
        try:
            answer = _read(fetched)
        except MediaError as error:
            failure = RunFailure("transcription", str(error), retryable=True)
            self._book(endpoint, model, _Answer(""), seconds, target, failure)
            raise
        self._book(endpoint, model, answer, seconds, target, None)
        text = answer.text.strip()
        if not text:
            raise MediaError("The transcript is empty.")
        return text if len(text) <= audio.max_chars else text[: audio.max_chars] + CUT

    def _book(
        self,
        endpoint: _Endpoint,
        model: AudioModel,
        answer: _Answer,
        seconds: float,
        target: CallTarget,
        error: RunFailure | None,
    ) -> None:
        used = answer.usage or _Usage()
        minutes = (used.seconds or answer.duration) / 60
        price = model.cost_per_minute
        is_priced = price is not None and (minutes > 0 or price == 0)
        cost = Cost(total=(price or 0.0) * minutes)
        usage = Usage(used.input_tokens, used.output_tokens, cost=cost)
        called = ModelCallEnded(
            endpoint.provider, model.model, "", usage, is_priced, seconds, error, target
        )
        self._accounts.book(called)

    def _endpoint(self, model: AudioModel) -> _Endpoint:
        """Returns the endpoint of a model; a key is only sent to its own provider's address.

        Raises:
            MediaError: the provider is unknown.
        """
        models = self._config().models
        entry, known_entry = models.providers.get(model.provider), known_provider(model.provider)
        headers = {name: value.get_secret_value() for name, value in model.headers.items()}
        key = model.api_key.get_secret_value().strip() if model.api_key else ""
        if model.base_url is not None:
            url = str(model.base_url)
        elif entry is not None:
            url = str(entry.base_url)
            key = key or (entry.api_key.get_secret_value().strip() if entry.api_key else "")
        elif known_entry is not None and models.mode is not Mode.REPLACE:
            url = known_entry.base_url
            lent = (self._environ.get(name, "").strip() for name in known_entry.variables)
            key = key or next(filter(None, lent), "")
        else:
            raise MediaError(f"tools.media.audio has an unknown provider {model.provider!r}.")
        if key:
            headers = {"authorization": f"Bearer {key}", **headers}
        return _Endpoint(model.provider or "transcription", url.rstrip("/"), headers)


def _read(fetched: Fetched) -> _Answer:
    """Parses the response of a provider.

    Raises:
        MediaError: the response is not a transcript.
    """
    if fetched.outcome is not Outcome.ALLOW:
        raise MediaError(f"The provider cannot be reached: {fetched.reason}.")
    if fetched.status != _OK:
        raise MediaError(f"The provider answered {fetched.status}.")
    try:
        return _answers.decode(fetched.body[:MAX_ANSWER])
    except msgspec.DecodeError:
        raise MediaError("The provider answered without a transcript.") from None
