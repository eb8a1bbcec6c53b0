"""Parameters of the tool `browser`, and the effect of each call."""

from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from skerry.model.errors import ToolError
from skerry.sdk.arguments import named

MAX_TEXT: Final = 20_000
"""Maximum characters of a text that is typed."""
MAX_WAIT: Final = 60.0

Action = Literal[
    "status",
    "start",
    "stop",
    "tabs",
    "open",
    "focus",
    "close",
    "navigate",
    "back",
    "snapshot",
    "screenshot",
    "console",
    "act",
]
Kind = Literal["click", "type", "press", "hover", "select", "fill", "wait"]
_REFUSED: Final = {
    "dialog": "dialogs are dismissed, and `console` lists them",
    "download": "downloads are refused; fetch a text with web_fetch",
    "evaluate": "scripts are refused",
    "pdf": "use screenshot, or snapshot for the text",
    "profiles": "each agent has one profile",
    "upload": "uploads are refused",
}
"""Actions of other browser tools, each with what to do instead."""
_NEEDS: Final = {
    "click": ("ref",),
    "hover": ("ref",),
    "type": ("ref", "text"),
    "fill": ("ref", "text"),
    "select": ("ref", "values"),
    "press": ("key",),
    "wait": (),
}
_ALIASES: Final = {
    "targetId": "tab",
    "targetUrl": "url",
    "target_id": "tab",
    "target_url": "url",
    "fullPage": "full_page",
}


class BrowserParams(BaseModel):
    """Parameters of `browser`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: Action
    url: str | None = Field(default=None, min_length=1, max_length=8192)
    tab: str | None = Field(default=None, max_length=20)
    kind: Kind | None = None
    ref: str | None = Field(default=None, max_length=20)
    text: str | None = Field(default=None, max_length=MAX_TEXT)
    key: str | None = Field(default=None, min_length=1, max_length=60)
    values: tuple[str, ...] = Field(default=(), max_length=50)
    submit: bool = False
    double: bool = False
    seconds: float = Field(default=10.0, ge=0, le=MAX_WAIT)
    full_page: bool = False

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.action in {"open", "navigate"} and self.url is None:
            message = f"url is required for the action {self.action}"
            raise ValueError(message)
        if self.action in {"focus", "close"} and self.tab is None:
            message = f"tab is required for the action {self.action}"
            raise ValueError(message)
        if self.action == "act":
            self._check_act()
        return self

    def _check_act(self) -> None:
        if self.kind is None:
            message = f"kind is required for the action act: {', '.join(_NEEDS)}"
            raise ValueError(message)
        for name in _NEEDS[self.kind]:
            if getattr(self, name) in {None, ()}:
                message = f"{name} is required for the kind {self.kind}"
                raise ValueError(message)

    @property
    def reads(self) -> bool:
        """Returns True when the call sends no input of the model to a page."""
        return self.action != "act" or self.kind in {"wait", "hover"}

    @property
    def summary(self) -> str:
        """Returns the input in words, for the person who approves it."""
        words: list[str] = [self.kind or self.action]
        if self.double:
            words = ["double", *words]
        if self.text is not None:
            words.append(repr(self.text))
        if self.key is not None:
            words.append(self.key)
        words += [repr(value) for value in self.values]
        return " ".join([*words, *(["and submit"] if self.submit else [])])


def parsed(arguments: dict[str, Any]) -> BrowserParams:
    """Returns the parameters of a call; `request` may have those of `act`.

    Raises:
        ValidationError: they are not valid.
        ToolError: the tool refuses such actions.
    """
    request = arguments.get("request")
    flat = {key: value for key, value in arguments.items() if key != "request"}
    if isinstance(request, dict):
        flat = {**request, **flat}
    action = flat.get("action")
    if isinstance(action, str) and action in _REFUSED:
        raise ToolError(f"The action {action} is not available: {_REFUSED[action]}.")
    return BrowserParams.model_validate(named(flat, _ALIASES))


SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(Action.__args__)},  # type: ignore[attr-defined] # of a Literal
        "url": {"type": "string", "description": "For open and navigate."},
        "tab": {"type": "string", "description": "Such as t1; by default the current tab."},
        "kind": {"type": "string", "enum": list(Kind.__args__)},  # type: ignore[attr-defined] # of a Literal
        "ref": {"type": "string", "description": "Element of the last snapshot, such as e12."},
        "text": {"type": "string", "description": "For type, fill; wait: until the page has it."},
        "key": {"type": "string", "description": "Such as Enter or Control+A."},
        "values": {"type": "array", "items": {"type": "string"}},
        "submit": {"type": "boolean", "description": "Press Enter after type or fill."},
        "double": {"type": "boolean"},
        "seconds": {"type": "number", "description": "Limit of wait."},
        "full_page": {"type": "boolean"},
    },
    "required": ["action"],
    "additionalProperties": False,
}
DESCRIPTION: Final = (
    "Use web pages in a browser: open a url, read the snapshot, act on its refs. Prefer web_fetch"
    " for plain pages."
)
