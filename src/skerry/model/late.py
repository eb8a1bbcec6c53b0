"""Modules that a start of the gateway does without."""

from typing import TYPE_CHECKING

from skerry.infra.late import late

if TYPE_CHECKING:
    from skerry.model import sentences as sentences
else:
    __getattr__ = late(__package__)
