"""Section `tools.media`: handling of the files that people send."""

from typing import Annotated

from pydantic import AfterValidator, Field, HttpUrl, SecretStr

from skerry.config.base import Section
from skerry.config.models import Headers, plain_address


class AudioModel(Section):
    """One model that transcribes speech."""

    provider: str = Field(default="", max_length=64)
    """Name of a provider. Its address and key are those in `models.providers`, or those of the
    known provider with this name and the key in the environment."""
    model: str = Field(min_length=1, max_length=128)
    """Id that the provider uses, such as `gpt-4o-mini-transcribe` or `whisper-1`."""
    base_url: Annotated[HttpUrl, AfterValidator(plain_address)] | None = None
    """Address of an OpenAI-compatible API, up to and including the version, instead of that of the
    provider."""
    api_key: SecretStr | None = None
    """Key that is sent to this address only."""
    headers: Headers = Field(default_factory=dict)
    """Headers that are sent with every call."""
    cost_per_minute: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Price in US dollars per minute of sound; when unset, the cost of a call is unknown."""


class AudioConfig(Section):
    """Voice messages and other recordings that people send."""

    enabled: bool = True
    """Transcribes recordings if `models` has entries."""
    models: tuple[AudioModel, ...] = Field(default=(), max_length=4)
    """Models in the order in which they are tried. Without any, no recording is sent to a provider,
    and the agent's model is told that the recording is not transcribed."""
    language: str = Field(default="", pattern=r"^([a-z]{2,3})?$")
    """Language of the recordings, such as `de`; when empty, the model detects it."""
    prompt: str = Field(default="", max_length=1000)
    """Words that help the model to spell names."""
    max_bytes: int = Field(default=20_000_000, ge=1000, le=25_000_000)
    """Maximum bytes of a recording that is transcribed."""
    max_chars: int = Field(default=8000, ge=100, le=100_000)
    """Maximum characters of a transcript; a longer one is cut."""
    timeout_seconds: float = Field(default=20.0, ge=1, le=120)
    """Time limit in seconds for the transcript of one recording; the message waits for it."""


class MediaConfig(Section):
    """Files that people send."""

    audio: AudioConfig = AudioConfig.model_construct()
