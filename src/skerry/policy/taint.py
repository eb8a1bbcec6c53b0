"""Lists the calls of a tainted run that require an approval (pure).

A run is tainted if its model has read text that the owner did not write. It may still read and use
the sandbox; it may not send, spend, leave the sandbox or write files that later runs read.
"""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from skerry.model.origin import Origin
from skerry.policy.file_kinds import LASTING, FileSubject
from skerry.policy.tool_names import HOST_TOOLS

FOREIGN: Final = frozenset(Origin) - {Origin.OWNER, Origin.BOOT, Origin.LOCAL}
"""Origins of text that neither the owner nor the owner's files provided. In a taint, `memory` means
a summary whose sources are unknown."""
_ACTS: Final = MappingProxyType(
    {
        "cron": "tainted-config",
        "gateway": "tainted-config",
        "memory_forget": "tainted-memory",
        "memory_write": "tainted-memory",
        "message": "tainted-send",
        "sessions_send": "tainted-send",
        "sessions_spawn": "tainted-spend",
        "subagents": "tainted-spend",
        "tts": "tainted-spend",
        "whatsapp_login": "tainted-send",
    }
)
_INPUTS: Final = MappingProxyType(
    {"browser": "tainted-send", "canvas": "tainted-send", "nodes": "tainted-host"}
)
"""Tools some of whose calls only read; the others require an approval."""
_WRITERS: Final = frozenset({"apply_patch", "edit", "write"})
_REASONS: Final = MappingProxyType(
    {
        "tainted-send": "it sends something",
        "tainted-spend": "it spends money",
        "tainted-host": "it runs outside the sandbox",
        "tainted-config": "it changes the configuration",
        "tainted-memory": "it changes the memory",
        "tainted-file": "every later run reads the file",
        "tainted-plugin": "the effect of a plugin's tool is not known",
    }
)


def foreign(taint: Iterable[Origin]) -> frozenset[Origin]:
    """Returns the origins in `taint` that make a run tainted."""
    return FOREIGN.intersection(taint)


def guarded_act(
    name: str,
    *,
    plugin: str = "",
    host: str = "",
    file: FileSubject | None = None,
    reads: bool = False,
) -> str:
    """Returns the rule that requires an approval for a call of a tainted run; empty for none.

    Args:
        name: Canonical name of the tool.
        plugin: Id of the plugin that registered the tool; empty for a built-in tool.
        host: Host of the command; empty and `sandbox` are the sandbox.
        file: File that the call writes.
        reads: True for a tool that declares that its calls have no effect, and for a call of a
            tool in `_INPUTS` that sends nothing.

    """
    if name in HOST_TOOLS:
        return "" if host in {"", "sandbox"} else "tainted-host"
    if name in _WRITERS:
        return "tainted-file" if file is not None and file.kind in LASTING else ""
    if name in _INPUTS:
        return "" if reads else _INPUTS[name]
    if name in _ACTS:
        return _ACTS[name]
    return "tainted-plugin" if plugin and not reads else ""


def reason(rule: str, taint: Iterable[Origin]) -> str:
    """Returns the reason for the approval, for the person and for the model."""
    origins = ", ".join(sorted(foreign(taint)))
    return f"{_REASONS[rule]}, and this conversation contains text from others ({origins})"
