"""Failures of a provider that did not answer at all."""

from skerry.model.errors import ModelConnectionError


class ModelUnreachableError(ModelConnectionError):
    """No connection to the provider could be made."""


class ModelSilentError(ModelConnectionError):
    """The provider took the request and sent nothing for too long. It is not asked again."""
