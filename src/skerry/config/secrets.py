"""Collects the secrets of a configuration and an environment, so that a log can hide them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import BaseModel, SecretStr

from skerry.config.redact import holds_secrets, is_secret
from skerry.config.root import Config


def secrets(config: Config, environ: Mapping[str, str]) -> set[str]:
    """Returns every text that is a secret by its type, or by the name of its key or variable."""
    texts = {value for name, value in environ.items() if is_secret(name)}
    return (texts | set(_within(config, named=False))) - {""}


def _within(value: object, *, named: bool) -> Iterator[str]:
    """Yields the secrets in `value`; if `named`, its key is that of a secret: yields all texts."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, str):
        if named:
            yield value
    else:
        for key, member in _members(value):
            yield from _within(member, named=named or holds_secrets(key))


def _members(value: object) -> Iterable[tuple[str, object]]:
    """Returns the keys and values of a section or a mapping, the items of a sequence without keys.

    Sections are tested first: a test against `Mapping` caches each class in `Mapping` and in its 60
    subclasses, which for the classes of all sections takes 0.7 MB.
    """
    if isinstance(value, BaseModel):
        return value
    if isinstance(value, Mapping):
        return ((str(key), member) for key, member in value.items())
    return (("", item) for item in value) if isinstance(value, Sequence) else ()
