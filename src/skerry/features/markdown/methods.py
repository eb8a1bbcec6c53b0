"""`markdown.render`: Markdown as HTML that is safe to insert into a page."""

from collections.abc import Callable, Sequence
from typing import Annotated, Final

import anyio.to_thread
from pydantic import AfterValidator, Field

from skerry.gateway.frames import Json
from skerry.gateway.late import html
from skerry.gateway.method import Call, Method, Params
from skerry.infra.expendable import Expendable, ExpendableError

MAX_TEXTS: Final = 64
MAX_TOTAL: Final = 262_144
"""Maximum total length of the texts of a request, in characters."""
_SHORT: Final = 4_000
"""Total length up to which texts are rendered in this process: the worst case takes 0.1 s."""


def _bounded(texts: list[str]) -> list[str]:
    if sum(map(len, texts)) > MAX_TOTAL:
        message = f"must have at most {MAX_TOTAL} characters together"
        raise ValueError(message)
    return texts


class MarkdownRenderParams(Params):
    """Parameters of `markdown.render`."""

    texts: Annotated[list[str], Field(max_length=MAX_TEXTS), AfterValidator(_bounded)]


async def markdown_render(call: Call, params: MarkdownRenderParams) -> Json:
    """Returns each text as HTML, in the same order."""
    if sum(map(len, params.texts)) <= _SHORT:
        return {"html": await anyio.to_thread.run_sync(_render_in_process, params.texts)}
    return {
        "html": await anyio.to_thread.run_sync(render_in_child, call.context.renders, params.texts)
    }


def _render_in_process(texts: Sequence[str]) -> list[str]:
    render, _ = _renderers()
    return render(texts)


def _renderers() -> tuple[Callable[[Sequence[str]], list[str]], Callable[[str], str]]:
    """Returns two functions: one renders texts as HTML, one renders a text as plain HTML."""
    return html.render, html.plain


def render_in_child(renders: Expendable, texts: Sequence[str]) -> list[str]:
    """Renders texts in a child process; a text that takes too long remains plain."""
    try:
        return _checked(renders(texts), len(texts))
    except ExpendableError:
        return [_render_single(renders, text) for text in texts]


def _render_single(renders: Expendable, text: str) -> str:
    try:
        return _checked(renders([text]), 1)[0]
    except ExpendableError:
        _, plain = _renderers()
        return plain(text)


def _checked(answer: object, count: int) -> list[str]:
    if not isinstance(answer, list) or len(answer) != count:
        raise ExpendableError("the response has another form")
    return [str(html) for html in answer]


METHODS: Final = (Method("markdown.render", MarkdownRenderParams, markdown_render),)
