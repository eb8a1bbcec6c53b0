"""Section `tools.media`: what is done with the files that people send."""

from typing import Annotated

from pydantic import AfterValidator, Field, HttpUrl, SecretStr

from skerry.config.base import Section
from skerry.config.models import Headers, plain_address


class AudioModel(Section):
    """One model that makes text of speech."""

    provider: str = Field(default="", max_length=64)
    """Name of a provider: its address and key are those of `models.providers`, or of the known
    provider of this name with the key in the environment."""
    model: str = Field(min_length=1, max_length=128)
    """Id that the provider uses, such as `gpt-4o-mini-transcribe` or `whisper-1`."""
    base_url: Annotated[HttpUrl, AfterValidator(plain_address)] | None = None
    """Address of an API like that of OpenAI, up to and including the version; instead of that of
    the provider."""
    api_key: SecretStr | None = None
    """Key that is sent to this address only."""
    headers: Headers = Field(default_factory=dict)
    """Headers sent with every call."""
    cost_per_minute: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Price of a minute of sound in US dollars; without it the cost of a call is unknown."""


class AudioConfig(Section):
    """Voice messages and other recordings that people send."""

    enabled: bool = True
    """Transcribes recordings, where there are `models`."""
    models: tuple[AudioModel, ...] = Field(default=(), max_length=4)
    """Models in the order in which they are asked; without any, no recording leaves this machine
    and each is said to be untranscribed."""
    language: str = Field(default="", pattern=r"^([a-z]{2,3})?$")
    """Language of the recordings, such as `de`; the model finds it out without it."""
    prompt: str = Field(default="", max_length=1000)
    """Words that help the model to spell names."""
    max_bytes: int = Field(default=20_000_000, ge=1000, le=25_000_000)
    """Largest recording that is transcribed."""
    max_chars: int = Field(default=8000, ge=100, le=100_000)
    """Characters of a transcript; the rest is cut."""
    timeout_seconds: float = Field(default=20.0, ge=1, le=120)
    """Seconds for the transcript of one recording; the message waits for it."""


class MediaConfig(Section):
    """Files that people send."""

    audio: AudioConfig = AudioConfig.model_construct()
