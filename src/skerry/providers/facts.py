"""What is known of well-known models: windows, limits, prices, abilities.

The packaged `models.json` says its date and sources. It is read when it is first asked for; a file
`models.json` in the state directory wins over it, value by value.
"""

import logging
import re
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from skerry.infra.foreign import UNREADABLE
from skerry.ports.model import ModelCost

FILE: Final = "models.json"

logger = logging.getLogger(__name__)

_LIMIT: Final = 4 * 1024 * 1024
_DATED: Final = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """US dollars for a million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    def known(self) -> ModelCost:
        """Return it as the port has it; without any price it is not known."""
        prices = (self.input, self.output, self.cache_read, self.cache_write)
        return ModelCost(*prices, known=any(prices))


class Fact(msgspec.Struct, frozen=True, rename="camel"):
    """One model; None is not known."""

    context_window: int | None = None
    max_tokens: int | None = None
    reasoning: bool = False
    input: tuple[Literal["text", "image"], ...] = ("text",)
    cost: Cost = Cost()
    embeds: bool = False
    """Whether it makes vectors instead of answers."""


class Facts:
    """Reads its files at the first question and keeps what they say.

    `directory` is the state directory; None is none, so that only the packaged file counts.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._providers: dict[str, Any] | None = None

    def of(self, provider: str, model: str) -> Fact:
        """Return what is known of a model; a dated name is that of the model without the date.

        OpenRouter's `maker/model` is known as the maker's.
        """
        if provider == "openrouter" and "/" in model:
            provider, _, model = model.partition("/")
        models = self._all().get(provider, {})
        entry = models.get(model, models.get(_DATED.sub("", model)))
        if entry is None:
            return Fact()
        try:
            return msgspec.convert(entry, Fact)
        except msgspec.ValidationError as error:
            logger.warning("models.json says nonsense of %s/%s: %s", provider, model, error)
            return Fact()

    def models(self, provider: str) -> list[str]:
        """Return the models of a provider that answer and of which something is known."""
        known = self._all().get(provider, {})
        return [model for model, entry in known.items() if not entry.get("embeds")]

    def _all(self) -> dict[str, Any]:
        if self._providers is None:
            packaged = files("skerry.providers").joinpath(FILE).read_bytes()
            self._providers = _models(packaged)
            if self._directory is not None:
                _merge(self._providers, _own(self._directory / FILE))
        return self._providers


def _own(file: Path) -> dict[str, Any]:
    """Return what a person wrote; a file that cannot be read counts as none, and is named."""
    try:
        with file.open("rb") as opened:
            return _models(opened.read(_LIMIT))
    except FileNotFoundError:
        return {}
    except (OSError, TypeError, *UNREADABLE) as error:
        logger.warning("%s is ignored: %s", file, error)
        return {}


def _models(data: bytes) -> dict[str, Any]:
    """Return provider to model to its entry. Raises `msgspec.DecodeError`."""
    parsed = msgspec.json.decode(data, type=_File)
    return {provider: dict(listed.models) for provider, listed in parsed.providers.items()}


class _Listed(msgspec.Struct):
    models: dict[str, dict[str, Any]] = {}


class _File(msgspec.Struct):
    providers: dict[str, _Listed] = {}


def _merge(into: dict[str, Any], over: dict[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
