"""Modules that are imported at first use, not when the gateway starts."""

from typing import TYPE_CHECKING

from skerry.infra.late import late

if TYPE_CHECKING:
    from skerry.model import sentences as sentences
else:
    __getattr__ = late(__package__)
