"""Modules that a start of the gateway does without."""

from typing import TYPE_CHECKING

from skerry.infra.late import late

if TYPE_CHECKING:
    from skerry.providers import anthropic as anthropic
    from skerry.providers import google as google
    from skerry.providers import responses as responses
else:
    __getattr__ = late(__package__)
