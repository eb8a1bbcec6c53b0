"""Tool calls that a model wrote as text instead of making them (pure).

Small and local models do that. Accepted is only what cannot be meant for a person: the whole text
is a JSON object, bare or in one code fence, with nothing in it but the name of an offered tool and
then its arguments; or the text ends in `<tool_call>` blocks of such objects. While the text comes,
what may yet become a call is held back.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.message import Block, TextBlock, ToolCall
from skerry.ports.model import ModelReply, ModelRequest

_OPEN: Final = "<tool_call>"
_CLOSE: Final = "</tool_call>"
_LANGUAGES: Final = ("json", "tool_call", "tool_code", "")
_FENCED: Final = re.compile(r"```(?:json|tool_call|tool_code)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
_BLOCKS: Final = re.compile(r"(?:\A|\n)[ \t]*+(?=<tool_call>)")
_LINE: Final = re.compile(r"(?:\A|\n)[ \t]*(<)")
_SPACE: Final = re.compile(r"\s+")
_OPENINGS: Final = ('{"name":"', '{"type":"function","name":"')
_HEAD: Final = 512  # characters in which it must show whether a text may be a call

WrittenCall = tuple[str, dict[str, Any]]

Verdict: TypeAlias = bool | None
"""True when a text begins like a call; None when more of it is needed."""


class WrittenCalls:
    """Watches the text of one response to `request`; one that offers no tools is let through."""

    def __init__(self, request: ModelRequest) -> None:
        offered = request.tools if request.model.supports_tools else ()
        self._names = frozenset(tool.name for tool in offered)
        self._fresh = True  # nothing but space was let through
        self._at_line = True  # only blanks were let through since the last line's end
        self._undecided = ""
        self._held: list[str] = []

    def feed(self, text: str) -> str:
        """Returns the part of the text so far that may be shown now and was not yet."""
        if not self._names:
            return text
        if self._held:
            self._held.append(text)
            return ""
        if self._undecided:
            text = self._undecided + text
            self._undecided = ""
        elif not self._fresh and "<" not in text:
            self._let_through(text)
            return text
        start, sure = self._candidate(text)
        if sure:
            self._held.append(text[start:])
        else:
            self._undecided = text[start:]
        shown = text[:start]
        self._let_through(shown)
        return shown

    def finish(self, reply: ModelReply) -> tuple[ModelReply, str]:
        """Returns the reply, with calls for what it wrote, and what was held back but is text."""
        rest = "".join(self._held) + self._undecided
        if not self._names or reply.tool_calls:
            return reply, rest
        written = written_calls(reply.text, self._names)
        if written is None:
            return reply, rest
        text, calls = written
        content: list[Block] = [
            block for block in reply.content if not isinstance(block, TextBlock)
        ]
        if text:
            content.append(TextBlock(text))
        content += [ToolCall("", name, arguments) for name, arguments in calls]
        return ModelReply(tuple(content), "toolUse", reply.usage), ""

    def _let_through(self, text: str) -> None:
        if text:
            _, newline, tail = text.rpartition("\n")
            self._at_line = not tail.strip(" \t") and (bool(newline) or self._at_line)
            self._fresh = self._fresh and not text.strip()

    def _candidate(self, text: str) -> tuple[int, bool]:
        """Returns where in the text a call may begin, its end if nowhere, and whether it must."""
        if self._fresh:
            sure = _opens_whole(text[:_HEAD], self._names)
            if sure is not False:
                return 0, sure is True
        for line in _LINE.finditer(text):
            if line.start() == 0 and text[0] != "\n" and not self._at_line:
                continue
            start = line.start(1)
            sure = _opens_block(text[start : start + _HEAD], self._names)
            if sure is not False:
                return start, sure is True
        return len(text), False


def written_calls(text: str, names: Iterable[str]) -> tuple[str, list[WrittenCall]] | None:
    """Returns the words before the calls that `text` is, and the calls; None for ordinary text."""
    whole = text.strip()
    fenced = _FENCED.fullmatch(whole)
    call = _call(fenced[1] if fenced else whole, names)
    if call is not None:
        return "", [call]
    blocks = _BLOCKS.search(text) if whole.endswith(_CLOSE) else None
    if blocks is None:
        return None
    calls: list[WrittenCall] = []
    for block in text[blocks.end() :].rstrip().split(_CLOSE)[:-1]:
        inside = block.strip()
        call = _call(inside.removeprefix(_OPEN), names) if inside.startswith(_OPEN) else None
        if call is None:
            return None
        calls.append(call)
    return text[: blocks.start()].rstrip(), calls


def _call(text: str, names: Iterable[str]) -> WrittenCall | None:
    """Returns the call that a JSON object is; None when anything about it is not as it must be."""
    if _opens_object(_SPACE.sub("", text[:_HEAD]), names) is not True:
        return None
    try:
        made = msgspec.json.decode(text, type=dict[str, Any])
    except UNREADABLE:
        return None
    name, kind = made.pop("name", None), made.pop("type", "function")
    arguments = made.get("arguments", made.get("parameters"))
    whole = name in names and kind == "function" and len(made) == 1
    return (name, arguments) if whole and isinstance(arguments, dict) else None


def _opens_whole(head: str, names: Iterable[str]) -> Verdict:
    """Judges how a text begins, bare or fenced."""
    tight = _SPACE.sub("", head)
    if not tight.startswith("`"):
        return _in_time(_opens_object(tight, names), head)
    verdict: Verdict = False
    for language in _LANGUAGES:
        fence = f"```{language}"
        if fence.startswith(tight):
            verdict = None
        elif tight.startswith(fence):
            inside = _opens_object(tight.removeprefix(fence), names)
            verdict = verdict if inside is False else inside
    return _in_time(verdict, head)


def _opens_block(head: str, names: Iterable[str]) -> Verdict:
    """Judges how a line begins, as a `<tool_call>` block."""
    if _OPEN.startswith(head):
        return None
    if not head.startswith(_OPEN):
        return False
    tight = _SPACE.sub("", head.removeprefix(_OPEN))
    return _in_time(_opens_object(tight, names), head)


def _opens_object(tight: str, names: Iterable[str]) -> Verdict:
    """Judges how text without space begins, as the object."""
    verdict: Verdict = False
    if not tight.startswith("{"[: len(tight)]):
        return False  # as nearly all that models say
    for opening in _OPENINGS:
        for name in names:
            whole = f'{opening}{name}",'
            if tight.startswith(whole):
                return True
            if whole.startswith(tight):
                verdict = None
    return verdict


def _in_time(verdict: Verdict, head: str) -> Verdict:
    """Returns the verdict; what is still open after so much text is no call."""
    return False if verdict is None and len(head) >= _HEAD else verdict
