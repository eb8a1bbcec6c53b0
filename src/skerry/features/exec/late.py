"""Modules of the feature that are imported with the first command: 2 MB."""

from typing import TYPE_CHECKING

from skerry.infra.late import late

if TYPE_CHECKING:
    from skerry.features.exec import tree_reader as tree_reader
else:
    __getattr__ = late(__package__)
