"""Makes the file tools."""

from collections.abc import Sequence

from skerry.features.files.apply_patch import ApplyPatch
from skerry.features.files.edit_tool import Edit
from skerry.features.files.image import Image
from skerry.features.files.journal import Journal
from skerry.features.files.read_tool import Read
from skerry.features.files.write_tool import Write
from skerry.ports.tool import Tool
from skerry.sdk.tool_host import ToolHost


def make(host: ToolHost) -> Sequence[Tool]:
    """Returns the tools, in their order in the model request."""
    journal = Journal(host.state_dir, host.clock.now_ms)
    return Read(host.skills), Write(journal), Edit(journal), ApplyPatch(journal), Image(host)
