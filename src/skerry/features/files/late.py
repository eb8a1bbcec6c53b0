"""Modules of the feature that are imported at first use: Pillow is large."""

from typing import TYPE_CHECKING

from skerry.infra.late import late

if TYPE_CHECKING:
    from skerry.features.files import pictures as pictures
else:
    __getattr__ = late(__package__)
