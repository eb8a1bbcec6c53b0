"""Facts of well-known models: windows, limits, prices, abilities.

The packaged `models.json` contains its date and sources. It is read at the first use; values of a
file `models.json` in the state directory override it one by one.
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
REPORTED: Final = "models-said.json"
"""File in the state directory with facts that providers reported."""

logger = logging.getLogger(__name__)

_LIMIT: Final = 4 * 1024 * 1024
_DATED: Final = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8})$")


_MAX_ADDRESSES: Final = 64


class CatalogCost(msgspec.Struct, frozen=True, rename="camel"):
    """US dollars for a million tokens."""

    input: float = 0.0
    output: float = 0.0
    cache_read: float = 0.0
    cache_write: float = 0.0

    def as_model_cost(self) -> ModelCost:
        """Returns the cost as the type of the port; without any price it is unknown."""
        prices = (self.input, self.output, self.cache_read, self.cache_write)
        return ModelCost(*prices, is_priced=any(prices))


class Fact(msgspec.Struct, frozen=True, rename="camel"):
    """Facts of one model; None for an unknown one."""

    context_window: int | None = None
    max_tokens: int | None = None
    reasoning: bool = False
    input: tuple[Literal["text", "image"], ...] = ("text",)
    cost: CatalogCost = CatalogCost()
    embeds: bool = False
    """True when it produces vectors instead of answers."""


class Facts:
    """Facts of models, read from their files at the first use.

    `directory` is the state directory; with None only the packaged file is read.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._providers: dict[str, Any] | None = None
        self._from_providers: dict[str, dict[str, dict[str, Any]]] | None = None

    def of(self, provider: str, model: str, address: str = "") -> Fact:
        """Returns the facts of a model; a date at the end of its name is ignored if necessary.

        For OpenRouter's `maker/model` the facts of the maker apply. Facts that no file has are
        those that the provider at `address` last reported.
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
        """Returns the chat models of a provider in the files."""
        entries = self._all().get(provider, {})
        return [model for model, entry in entries.items() if not entry.get("embeds")]

    def learn(self, address: str, offered: "Sequence[Offered]") -> None:
        """Stores the facts that a provider reported, for this process and in a file.

        An error of the file is ignored.
        """
        entries = {model.id: entry for model in offered if (entry := _entry(model))}
        reported = self._reported()
        if reported.get(address_of(address), {}) == entries:
            return
        reported.pop(address_of(address), None)
        if entries:
            reported[address_of(address)] = entries
        while len(reported) > _MAX_ADDRESSES:
            del reported[next(iter(reported))]
        if self._directory is not None:
            with suppress(OSError):
                write_atomic(
                    self._directory / REPORTED, msgspec.json.encode({"addresses": reported})
                )

    def _reported(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Returns the reported facts by address and model."""
        if self._from_providers is None:
            self._from_providers = {}
            if self._directory is not None:
                with suppress(
                    OSError, TypeError, *UNREADABLE
                ):  # it is only kept to save a question
                    data = (self._directory / REPORTED).read_bytes()
                    self._from_providers = msgspec.json.decode(data, type=_ReportFile).addresses
        return self._from_providers

    def _all(self) -> dict[str, Any]:
        if self._providers is None:
            packaged = files("skerry.providers").joinpath(FILE).read_bytes()
            self._providers = _models(packaged)
            if self._directory is not None:
                _merge(self._providers, _read_own_file(self._directory / FILE))
        return self._providers


def _read_own_file(file: Path) -> dict[str, Any]:
    """Reads the file in the state directory; an unreadable file is logged and ignored."""
    try:
        with file.open("rb") as opened:
            return _models(opened.read(_LIMIT))
    except FileNotFoundError:
        return {}
    except (OSError, TypeError, *UNREADABLE) as error:
        logger.warning("%s is ignored: %s", file, error)
        return {}


def _models(data: bytes) -> dict[str, Any]:
    """Returns the entries by provider and model. Raises `msgspec.DecodeError`."""
    parsed = msgspec.json.decode(data, type=_File)
    return {provider: dict(listed.models) for provider, listed in parsed.providers.items()}


class _Listed(msgspec.Struct):
    models: dict[str, dict[str, Any]] = {}


class _ReportFile(msgspec.Struct):
    addresses: dict[str, dict[str, dict[str, Any]]] = {}


def _entry(model: "Offered") -> dict[str, Any]:
    """Returns the facts of a listed model with the keys of `Fact`; empty without any fact."""
    numbers = {"contextWindow": model.context_window, "maxTokens": model.max_tokens}
    entry: dict[str, Any] = {name: value for name, value in numbers.items() if value is not None}
    if model.sees is not None:
        entry["input"] = ["text", "image"] if model.sees else ["text"]
    return entry


def address_of(base_url: str) -> str:
    """Returns a URL without the user name and password that it may contain."""
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
