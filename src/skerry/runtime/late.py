"""Modules that are imported at their first use, not at the start of the gateway."""

from typing import TYPE_CHECKING

from skerry.infra.late import late

if TYPE_CHECKING:
    from skerry.runtime import media_out as media_out
    from skerry.runtime import pictures as pictures
    from skerry.runtime import preview_streaming as preview_streaming
    from skerry.runtime.compaction import memory_flush as memory_flush
else:
    __getattr__ = late(__package__, memory_flush="skerry.runtime.compaction.memory_flush")
