"""Failures of model calls without any response of the provider."""

from skerry.model.errors import ModelConnectionError


class ModelUnreachableError(ModelConnectionError):
    """No connection to the provider could be made."""


class ModelSilentError(ModelConnectionError):
    """The provider accepted the request and sent nothing in time. It is not called again."""
