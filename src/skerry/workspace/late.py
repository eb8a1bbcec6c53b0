"""Modules that a start of the gateway does not need."""

from typing import TYPE_CHECKING

from skerry.infra.late import late

if TYPE_CHECKING:
    from skerry.workspace import skill_md as skill_md
else:
    __getattr__ = late(__package__)
