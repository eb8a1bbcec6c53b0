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
    """Yields the secrets in `value`; all of its text when `named`: its key is that of a secret.

    The concrete types are tested before the abstract ones: a class that is not a `Mapping` is
    remembered as such by `Mapping` and by each of its 60 subclasses, which for the classes of all
    sections takes 1 MB.
    """
    match value:
        case None | int() | float():
            pass
        case SecretStr():
            yield value.get_secret_value()
        case str():
            if named:
                yield value
        case BaseModel():
            for key, member in value:
                yield from _within(member, named=named or holds_secrets(key))
        case dict() | Mapping():
            for key, member in value.items():
                yield from _within(member, named=named or holds_secrets(str(key)))
        case tuple() | Sequence():
            for member in value:
                yield from _within(member, named=named)
