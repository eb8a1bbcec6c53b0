"""Catalogue of well-known models: windows, limits, prices, abilities.

The packaged `models.json` says its date and sources. It is read when it is first asked for; a file
`models.json` in the state directory wins over it, value by value.
"""

import logging
import re
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from skerry.infra.atomic import write_atomic
from skerry.infra.untrusted_json import UNREADABLE
from skerry.ports.model import ModelCost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skerry.providers.offered import Offered

FILE: Final = "models.json"
SAID: Final = "models-said.json"
"""File in the state directory with the providers' own data about models that no list has."""

logger = logging.getLogger(__name__)

_LIMIT: Final = 4 * 1024 * 1024
_DATED: Final = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")


_MOST_ADDRESSES: Final = 64


class CatalogCost(msgspec.Struct, frozen=True, rename="camel"):
    """US dollars for a million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    def known(self) -> ModelCost:
        """Returns it as the port has it; without any price it is not known."""
        prices = (self.input, self.output, self.cache_read, self.cache_write)
        return ModelCost(*prices, is_priced=any(prices))


class Fact(msgspec.Struct, frozen=True, rename="camel"):
    """One model; None is not known."""

    context_window: int | None = None
    max_tokens: int | None = None
    reasoning: bool = False
    input: tuple[Literal["text", "image"], ...] = ("text",)
    cost: CatalogCost = CatalogCost()
    embeds: bool = False
    """True when it produces vectors instead of answers."""


class Facts:
    """Reads its files at the first question and keeps what they say.

    `directory` is the state directory; None is none, so that only the packaged file counts.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._providers: dict[str, Any] | None = None
        self._from_providers: dict[str, dict[str, dict[str, Any]]] | None = None

    def of(self, provider: str, model: str, address: str = "") -> Fact:
        """Returns the facts of a model; a dated name is that of the model without the date.

        OpenRouter's `maker/model` is known as the maker's. What neither file says is what the
        provider at `address` said itself, when it was last asked for its models.
        """
        reported = self._reported().get(address_of(address), {}).get(model, {})
        if provider == "openrouter" and "/" in model:
            provider, _, model = model.partition("/")
        models = self._all().get(provider, {})
        entry = models.get(model, models.get(_DATED.sub("", model)))
        try:
            return msgspec.convert({**reported, **(entry or {})}, Fact)
        except msgspec.ValidationError as error:
            logger.warning("models.json has invalid values for %s/%s: %s", provider, model, error)
            return Fact()

    def models(self, provider: str) -> list[str]:
        """Returns the models of a provider that answer and of which something is known."""
        entries = self._all().get(provider, {})
        return [model for model, entry in entries.items() if not entry.get("embeds")]

    def learn(self, address: str, offered: "Sequence[Offered]") -> None:
        """Keeps what a provider says of its models, for this process and those that follow.

        What cannot be written is known to this process only.
        """
        entries = {model.id: entry for model in offered if (entry := _entry(model))}
        reported = self._reported()
        if reported.get(address_of(address), {}) == entries:
            return
        reported.pop(address_of(address), None)
        if entries:
            reported[address_of(address)] = entries
        while len(reported) > _MOST_ADDRESSES:
            del reported[next(iter(reported))]
        if self._directory is not None:
            with suppress(OSError):
                write_atomic(self._directory / SAID, msgspec.json.encode({"addresses": reported}))

    def _reported(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Returns address to model to what was said of it."""
        if self._from_providers is None:
            self._from_providers = {}
            if self._directory is not None:
                with suppress(
                    OSError, TypeError, *UNREADABLE
                ):  # it is only kept to save a question
                    data = (self._directory / SAID).read_bytes()
                    self._from_providers = msgspec.json.decode(data, type=_ReportFile).addresses
        return self._from_providers

    def _all(self) -> dict[str, Any]:
        if self._providers is None:
            packaged = files("skerry.providers").joinpath(FILE).read_bytes()
            self._providers = _models(packaged)
            if self._directory is not None:
                _merge(self._providers, _own(self._directory / FILE))
        return self._providers


def _own(file: Path) -> dict[str, Any]:
    """Reads the person's own file; one that cannot be read counts as empty, and is logged."""
    try:
        with file.open("rb") as opened:
            return _models(opened.read(_LIMIT))
    except FileNotFoundError:
        return {}
    except (OSError, TypeError, *UNREADABLE) as error:
        logger.warning("%s is ignored: %s", file, error)
        return {}


def _models(data: bytes) -> dict[str, Any]:
    """Returns provider to model to its entry. Raises `msgspec.DecodeError`."""
    parsed = msgspec.json.decode(data, type=_File)
    return {provider: dict(listed.models) for provider, listed in parsed.providers.items()}


class _Listed(msgspec.Struct):
    models: dict[str, dict[str, Any]] = {}


class _ReportFile(msgspec.Struct):
    addresses: dict[str, dict[str, dict[str, Any]]] = {}


def _entry(model: "Offered") -> dict[str, Any]:
    """Converts a provider's entry of a model into the words of `Fact`; empty without any fact."""
    numbers = {"contextWindow": model.context_window, "maxTokens": model.max_tokens}
    entry: dict[str, Any] = {name: value for name, value in numbers.items() if value is not None}
    if model.sees is not None:
        entry["input"] = ["text", "image"] if model.sees else ["text"]
    return entry


def address_of(base_url: str) -> str:
    """Returns an address without a name and a password that may stand in it."""
    scheme, mark, rest = base_url.rstrip("/").partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{mark}{host.rpartition('@')[2]}{slash}{path}"


class _File(msgspec.Struct):
    providers: dict[str, _Listed] = {}


def _merge(into: dict[str, Any], over: dict[str, Any]) -> None:
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
