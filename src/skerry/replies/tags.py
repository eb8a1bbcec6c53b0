"""Removes directives from the streamed text of a model (pure).

`<think>` and similar tags contain thoughts; `<final>` is removed. `[[reply_to_current]]`,
`[[reply_to:ID]]` and `[[audio_as_voice]]` set how the reply is sent. A line `MEDIA: file` names a
file. In code all of them are plain text. The result depends only on the text, not on the sizes of
the deltas.
"""

import re
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from skerry.replies import code_fences

_SPECIAL: Final = re.compile(r"[<`\[\n]")
_THINKS: Final = r"(?:think(?:ing)?|thought|antthinking)"
_TAG: Final = re.compile(
    rf"<\s{{0,3}}(/?)\s{{0,3}}({_THINKS}|final)\b[^<>\n]{{0,20}}>", re.IGNORECASE
)
_END: Final = re.compile(rf"<\s{{0,3}}/\s{{0,3}}{_THINKS}\s{{0,3}}>", re.IGNORECASE)
_MAX_TAG_CHARS: Final = 40
_NAMES: Final = ("think", "thinking", "thought", "antthinking", "final")
_DIRECTIVE: Final = re.compile(
    r"\[\[\s{0,3}(?:(reply_to_current)|reply_to\s{0,3}:\s{0,3}([^\[\]\s]{1,128})|audio_as_voice)"
    r"\s{0,3}\]\]",
    re.IGNORECASE,
)
_MAX_DIRECTIVE_CHARS: Final = 170
_WORDS: Final = ("reply_to_current", "reply_to:", "audio_as_voice")
_LINE_STARTS: Final = frozenset({"", " ", "\t", "`", "~", "M"})
"""First characters of a line that may be a fence or name a file; empty for a line without any."""
_HEAD: Final = re.compile(r"[ \t]{0,100}(`{3,}|~{3,}|MEDIA:)")
_HEAD_BEGUN: Final = re.compile(r"[ \t]{0,100}(?:`{1,2}|~{1,2}|M(?:E(?:D(?:I(?:A)?)?)?)?)?\Z")
_TICKS: Final = re.compile(r"`+")
_MAX_LINE_CHARS: Final = 4096
"""Limit on the characters of inline code, and of a line that is read as a whole."""
_MAX_CLOSING_CHARS: Final = 200
_REFERENCES: Final = re.compile(r"`([^`]+)`|\"([^\"]+)\"|'([^']+)'|(\S+)")
_FILE_REFERENCE: Final = re.compile(r"(?:[/~.]|[a-z][a-z0-9+.-]*://)|.*\.\w{1,10}\Z", re.IGNORECASE)
_CERTAIN_LETTERS: Final = 3
"""Number of letters from which on a prefix is certainly a tag or directive."""


class ReplyMarks(Struct):
    """Reply marks in the text of the model."""

    reply_to: str | None = None
    """Platform id of the message to reply to."""
    reply_to_current: bool = False
    voice: bool = False
    """True when audio files are sent as voice messages."""


def media(line: str) -> list[str] | None:
    """Returns the files in a line `MEDIA: ...`; None for any other line."""
    _, begins, names = line.partition("MEDIA:")
    if not begins:
        return None
    files = [next(filter(None, match.groups())) for match in _REFERENCES.finditer(names)]
    return files if files and all(map(_FILE_REFERENCE.match, files)) else None


class TagFilter:
    """Passes a streamed text through without its directives."""

    __slots__ = (
        *("_code_line", "_fence", "_fresh", "_pending", "_last", "_media", "_out", "_think"),
        *("_swallow", "_thinking", "marks"),
    )

    def __init__(self, think: Callable[[str], object], show: Callable[[str], str] | None) -> None:
        """Takes the receiver of the thoughts, and the function that replaces a file.

        If `show` is None, only thoughts and `<final>` are removed.
        """
        self._think = think
        self._media = show
        self.marks = ReplyMarks()
        self._pending = ""
        self._fresh = True
        """True at the start of a line."""
        self._fence: code_fences.Fence | None = None
        self._code_line = ""
        self._thinking = False
        self._swallow = False
        """True after a removal, so that the following space is removed too."""
        self._last = ""
        self._out: list[str] = []

    def feed(self, text: str) -> str:
        """Adds a delta; returns the text that can be released now."""
        busy = self._pending or self._thinking or self._fence or self._swallow
        begins = self._fresh and text[:1] in _LINE_STARTS
        if not busy and not begins and _SPECIAL.search(text) is None:
            self._last = text[-1:] or self._last
            self._fresh = False
            return text
        return self._read(text, final=False)

    def end(self) -> str:
        """Returns the pending text, without an incomplete tag at the end."""
        return self._read("", final=True) if self._pending else ""

    def _read(self, text: str, *, final: bool) -> str:
        text, self._pending = self._pending + text, ""
        index = 0
        while index < len(text):
            if self._thinking:
                after = self._read_thought(text, index, final=final)
            elif self._fence is not None:
                after = self._read_code(text, index, final=final)
            elif self._fresh:
                after = self._read_head(text, index, final=final)
            else:
                after = self._read_line(text, index, final=final)
            if after < 0:
                self._pending = text[index:] if not self._thinking else self._pending
                break
            index = after
        released = "".join(self._out)
        self._out.clear()
        return released

    # Each method returns the position up to which the text was read; -1 if it needs more text.

    def _read_thought(self, text: str, index: int, *, final: bool) -> int:
        match = _END.search(text, index)
        if match is not None:
            self._think(text[index : match.start()])
            self._thinking, self._swallow = False, True
            return match.end()
        end = text.rfind("<", max(index, len(text) - _MAX_TAG_CHARS))
        end = len(text) if end < 0 or ">" in text[end:] else end
        if text[index:end]:
            self._think(text[index:end])
        self._pending = "" if final else text[end:]
        return -1

    def _read_code(self, text: str, index: int, *, final: bool) -> int:
        end = text.find("\n", index) + 1 or len(text)
        if len(self._code_line) < _MAX_CLOSING_CHARS:  # enough to recognise a closing line
            self._code_line += text[index:end]
        self._release(text[index:end])
        if text[end - 1] == "\n" or final:
            self._fence = code_fences.after(self._code_line.rstrip("\n"), self._fence)
            self._code_line, self._fresh = "", True
        return end

    def _read_head(self, text: str, index: int, *, final: bool) -> int:
        """Reads the beginning of a line; a fence line or a line of files is read as a whole."""
        match = _HEAD.match(text, index)
        end = text.find("\n", index, index + _MAX_LINE_CHARS) + 1
        too_long = not end and len(text) - index >= _MAX_LINE_CHARS
        begun = match is not None or _HEAD_BEGUN.match(text, index) is not None
        if begun and not (end or final or too_long):
            return -1
        self._fresh = False
        if match is None or too_long:
            return index
        end = end or len(text)
        line = text[index:end]
        replacement = self._files(line) if match[1] == "MEDIA:" else self._fenced(line)
        if replacement is None:
            return index
        self._release(replacement)
        self._fresh = True
        return end

    def _files(self, line: str) -> str | None:
        """Returns the replacement of a line of files; None for any other line."""
        names = media(line) if self._media is not None else None
        if names is None or self._media is None:
            return None
        replacement = "\n".join(map(self._media, names))
        return f"{replacement}{line[len(line.rstrip()) :]}"

    def _fenced(self, line: str) -> str | None:
        """Returns the line if it opens a fence."""
        self._fence = code_fences.after(line.rstrip("\n"), None)
        return line if self._fence is not None else None

    def _read_line(self, text: str, index: int, *, final: bool) -> int:
        match = _SPECIAL.search(text, index)
        if match is None:
            self._release(text[index:])
            return len(text)
        at = match.start()
        if at > index:
            self._release(text[index:at])
        match match[0]:
            case "\n":
                self._release("\n")
                self._fresh = True
                return at + 1
            case "`":
                after = self._read_ticks(text, at, final=final)
            case "<":
                after = self._read_tag(text, at, final=final)
            case _:
                after = self._read_directive(text, at, final=final)
        if after < 0 and at > index:
            return at  # the text before the mark is already released
        return after

    def _read_ticks(self, text: str, at: int, *, final: bool) -> int:
        begin = _TICKS.match(text, at)
        start = begin.end() if begin else at + 1
        if start == len(text) and not final:
            return -1
        window = text[start : start + _MAX_LINE_CHARS]
        line = window.partition("\n")[0]
        for ticks in _TICKS.finditer(line):
            if ticks.end() == len(window) < _MAX_LINE_CHARS and not final:
                return -1
            if ticks.end() - ticks.start() == start - at:
                self._release(text[at : start + ticks.end()])
                return start + ticks.end()
        if len(line) == len(window) < _MAX_LINE_CHARS and not final:
            return -1
        self._release(text[at:start])
        return start

    def _read_tag(self, text: str, at: int, *, final: bool) -> int:
        match = _TAG.match(text, at)
        if match is not None:
            closes, name = match.groups()
            self._thinking = not closes and name.lower() != "final"
            self._swallow = True
            self._fresh = self._last in {"", "\n"}
            return match.end()
        rest = text[at : at + _MAX_TAG_CHARS]
        return self._incomplete_mark(text, at, _tag_letters(rest), final=final)

    def _read_directive(self, text: str, at: int, *, final: bool) -> int:
        if self._media is None:
            self._release("[")
            return at + 1
        match = _DIRECTIVE.match(text, at)
        if match is not None:
            if match[2]:
                self.marks.reply_to = match[2]
            self.marks.reply_to_current |= match[1] is not None
            self.marks.voice |= not (match[1] or match[2])
            self._swallow = True
            self._fresh = self._last in {"", "\n"}
            return match.end()
        letters = _directive_letters(text[at : at + _MAX_DIRECTIVE_CHARS])
        return self._incomplete_mark(text, at, letters, final=final)

    def _incomplete_mark(self, text: str, at: int, letters: int, *, final: bool) -> int:
        """Keeps a possible beginning of a mark pending; at the end drops it if it is certain."""
        if letters < 0:
            self._release(text[at])
            return at + 1
        if not final:
            return -1
        if letters < _CERTAIN_LETTERS:
            self._release(text[at:])
        return len(text)

    def _release(self, text: str) -> None:
        if self._swallow:
            if self._last == "":
                text = text.lstrip()
            elif self._last.isspace():
                text = text.lstrip(" \t")
            self._swallow = not text
        if text:
            self._last = text[-1]
            self._out.append(text)


def _tag_letters(rest: str) -> int:
    """Returns the number of letters of a tag name in `rest`; -1 if it cannot become a tag."""
    if len(rest) == _MAX_TAG_CHARS or ">" in rest or "\n" in rest or "<" in rest[1:]:
        return -1
    word = rest[1:].replace("/", "", 1).strip().lower()
    name = word.split(maxsplit=1)[0] if word else ""
    begun = name == word and any(tag.startswith(name) for tag in _NAMES)
    return len(name) if begun or name in _NAMES else -1


def _directive_letters(rest: str) -> int:
    """Returns the number of letters of a directive in `rest`; -1 if it cannot become one."""
    if len(rest) == _MAX_DIRECTIVE_CHARS or "]]" in rest or "\n" in rest:
        return -1
    if not "[[".startswith(rest[:2]):
        return -1
    word = "".join(rest[2:].lower().split())
    begun = any(directive.startswith(word) or word.startswith(directive) for directive in _WORDS)
    return len(word) if begun else -1
