"""Filters of a streamed answer: tool calls written as text, and secrets (pure).

Small and local models write tool calls as text instead of making them. Two forms are accepted,
which no text for a person has: the whole text is a JSON object, bare or in one code fence, with
only the name of an offered tool and then its arguments; or the text ends in `<tool_call>` blocks of
such objects. While the text arrives, a possible beginning of a call is held back.

A secret that a server echoes is removed from each event; `SecretFilter` removes a secret that is
split over events.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.message import Block, TextBlock, ThinkingBlock, ToolCall
from skerry.ports.model import ModelReply, ModelRequest, ReplyListener
from skerry.providers.wire_format import EventText

_OPEN: Final = "<tool_call>"
_CLOSE: Final = "</tool_call>"
_LANGUAGES: Final = ("json", "tool_call", "tool_code", "")
_FENCED: Final = re.compile(r"```(?:json|tool_call|tool_code)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL)
_BLOCKS: Final = re.compile(r"(?:\A|\n)[ \t]*+(?=<tool_call>)")
_LINE: Final = re.compile(r"(?:\A|\n)[ \t]*(<)")
_SPACE: Final = re.compile(r"\s+")
_OPENINGS: Final = ('{"name":"', '{"type":"function","name":"')
_HEAD: Final = 512  # characters after which an undecided text counts as text

WrittenCall = tuple[str, dict[str, Any]]

IsCall: TypeAlias = bool | None
"""True when a text begins like a call, False when it does not; None while it is undecided."""


class WrittenCalls:
    """Finds calls in the text of one response; without tools in `request` all text passes."""

    def __init__(self, request: ModelRequest) -> None:
        offered = request.tools if request.model.supports_tools else ()
        self._names = frozenset(tool.name for tool in offered)
        self._fresh = True  # only white space was released
        self._at_line = True  # only blanks were released since the last line break
        self._undecided = ""
        self._held_back: list[str] = []

    def feed(self, text: str) -> str:
        """Adds text; returns the text that can be released now."""
        if not self._names:
            return text
        if self._held_back:
            self._held_back.append(text)
            return ""
        if self._undecided:
            text = self._undecided + text
            self._undecided = ""
        elif not self._fresh and "<" not in text:
            self._let_through(text)
            return text
        start, sure = self._candidate(text)
        if sure:
            self._held_back.append(text[start:])
        else:
            self._undecided = text[start:]
        released = text[:start]
        self._let_through(released)
        return released

    def finish(self, reply: ModelReply) -> tuple[ModelReply, str]:
        """Returns the reply with written calls as tool calls, and the held-back text if no call."""
        rest = "".join(self._held_back) + self._undecided
        if not self._names or reply.tool_calls:
            return reply, rest
        matched = written_calls(reply.text, self._names)
        if matched is None:
            return reply, rest
        text, calls = matched
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
        """Returns the index at which a call may begin, or the end, and True if it is certain."""
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
    """Returns the text before the written calls, and the calls; None for text without calls."""
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
    """Returns the call in a JSON object; None when any part of it differs from the form."""
    if _opens_object(_SPACE.sub("", text[:_HEAD]), names) is not True:
        return None
    try:
        parsed = msgspec.json.decode(text, type=dict[str, Any])
    except UNREADABLE:
        return None
    name, kind = parsed.pop("name", None), parsed.pop("type", "function")
    arguments = parsed.get("arguments", parsed.get("parameters"))
    whole = name in names and kind == "function" and len(parsed) == 1
    return (name, arguments) if whole and isinstance(arguments, dict) else None


def _opens_whole(head: str, names: Iterable[str]) -> IsCall:
    """Checks the beginning of a text, bare or fenced."""
    tight = _SPACE.sub("", head)
    if not tight.startswith("`"):
        return _in_time(_opens_object(tight, names), head)
    verdict: IsCall = False
    for language in _LANGUAGES:
        fence = f"```{language}"
        if fence.startswith(tight):
            verdict = None
        elif tight.startswith(fence):
            inside = _opens_object(tight.removeprefix(fence), names)
            verdict = verdict if inside is False else inside
    return _in_time(verdict, head)


def _opens_block(head: str, names: Iterable[str]) -> IsCall:
    """Checks the beginning of a line as that of a `<tool_call>` block."""
    if _OPEN.startswith(head):
        return None
    if not head.startswith(_OPEN):
        return False
    tight = _SPACE.sub("", head.removeprefix(_OPEN))
    return _in_time(_opens_object(tight, names), head)


def _opens_object(tight: str, names: Iterable[str]) -> IsCall:
    """Checks the beginning of text without white space as that of the object."""
    verdict: IsCall = False
    if not tight.startswith("{"[: len(tight)]):
        return False  # the usual case
    for opening in _OPENINGS:
        for name in names:
            whole = f'{opening}{name}",'
            if tight.startswith(whole):
                return True
            if whole.startswith(tight):
                verdict = None
    return verdict


def _in_time(verdict: IsCall, head: str) -> IsCall:
    """Returns the verdict; False when it is undecided after `_HEAD` characters."""
    return False if verdict is None and len(head) >= _HEAD else verdict


HIDDEN: Final = "***"


class SecretFilter:
    """Removes secrets from a streamed text; holds back a possible beginning of a secret."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        """Stores the secrets, none of which may be empty."""
        self._secrets = [secret.decode("utf-8", "replace") for secret in secrets]
        self._held_back = ""

    def feed(self, text_added: str) -> str:
        """Returns the part of the text so far that can be shown now and was not yet."""
        if not self._secrets:
            return text_added
        text = hide(self._held_back + text_added, self._secrets)
        held_back = max(_begun(text, secret) for secret in self._secrets)
        self._held_back = text[len(text) - held_back :]
        return text[: len(text) - held_back]

    def flush(self) -> str:
        """Returns the held-back text at the end of the stream."""
        text, self._held_back = self._held_back, ""
        return text

    def reply(self, reply: ModelReply) -> ModelReply:
        """Returns the whole reply without the secrets in its texts and thoughts."""
        if not self._secrets:
            return reply
        return replace(reply, content=tuple(self._block(block) for block in reply.content))

    def _block(self, block: Block) -> Block:
        match block:
            case TextBlock(text=text) if (hidden := hide(text, self._secrets)) != text:
                return replace(block, text=hidden)
            case ThinkingBlock(thinking=text) if (hidden := hide(text, self._secrets)) != text:
                return replace(block, thinking=hidden)
            case _:
                return block


def hide(text: str, secrets: Sequence[str]) -> str:
    """Returns the text with stars in place of each secret."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def _begun(text: str, secret: str) -> int:
    """Returns the length of the end of the text that is a beginning of the secret."""
    start = text.find(secret[0], max(0, len(text) - len(secret) + 1))
    while start >= 0 and not secret.startswith(text[start:]):
        start = text.find(secret[0], start + 1)
    return 0 if start < 0 else len(text) - start


class TextRelay:
    """Passes the output of one network read to a listener, text and thinking each in one call."""

    __slots__ = (
        "_fragments",
        "_hear",
        "_text",
        "_thinking",
        "_thoughts",
        "_written_calls",
        "redact",
    )

    def __init__(
        self, listener: ReplyListener, calls: WrittenCalls, secrets: tuple[bytes, ...]
    ) -> None:
        self._hear = listener
        self._written_calls = calls
        self._text, self._thoughts = SecretFilter(secrets), SecretFilter(secrets)
        self.redact = self._text.reply
        self._fragments: list[str] = []
        self._thinking = False

    def add(self, added: EventText | None) -> None:
        """Collects the output of one event."""
        if added is None:
            return
        if added.thinking:
            self._put(added.thinking, thinking=True)
        if added.text:
            self._put(added.text, thinking=False)

    def _put(self, fragment: str, *, thinking: bool) -> None:
        if thinking is not self._thinking:
            self.flush()
            self._thinking = thinking
            if thought := self._thoughts.flush():
                self._hear.on_thinking(thought)
        self._fragments.append(fragment)

    def flush(self) -> None:
        """Passes the collected output to the listener."""
        if not self._fragments:
            return
        fragment = "".join(self._fragments)
        self._fragments.clear()
        if self._thinking:
            if thought := self._thoughts.feed(fragment):
                self._hear.on_thinking(thought)
        elif text := self._text.feed(self._written_calls.feed(fragment)):
            self._hear.on_text(text)

    def end(self, held_text: str) -> None:
        """Passes on the rest, and `held_text`, which turned out to be no call."""
        if thought := self._thoughts.flush():
            self._hear.on_thinking(thought)
        if text := self._text.feed(held_text) + self._text.flush():
            self._hear.on_text(text)
