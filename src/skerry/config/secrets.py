"""Collects the secrets of a configuration and an environment, so that a log can hide them."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel, SecretStr

from skerry.config.redact import holds_secrets, is_secret
from skerry.config.root import Config


def secrets(config: Config, environ: Mapping[str, str]) -> set[str]:
    """Returns every text that is a secret by its type, or by the name it goes by."""
    texts = {value for name, value in environ.items() if is_secret(name)}
    return (texts | set(_within(config, named=False))) - {""}


def _within(value: object, *, named: bool) -> Iterator[str]:
    """Yields the secrets in `value`; `named`: what it goes by says that all of it is."""
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case str():
            if named:
                yield value
        case BaseModel() | Mapping():
            for key, member in value.items() if isinstance(value, Mapping) else value:
                yield from _within(member, named=named or holds_secrets(str(key)))
        case Sequence():
            for member in value:
                yield from _within(member, named=named)
