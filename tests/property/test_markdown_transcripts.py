"""A transcript that is exported as Markdown is imported with the same roles, times and words."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from skerry.cli.render import plain
from skerry.features.sessions.cli_transcripts import Transcript, as_markdown
from skerry.model.message import AssistantMessage, UserMessage
from skerry.sessions.markdown_import import read_markdown

MINUTE = 60_000
KINDS = {"user": UserMessage, "assistant": AssistantMessage}
HEADINGS = st.sampled_from(
    ["## You, 2026-05-04 10:00", "\\## Note, 2026-05-04 10:00", "# Title", "```", "## You", "\\"]
)
LINES = st.lists(HEADINGS | st.text(max_size=20).map(plain), min_size=1, max_size=4)
WORDS = LINES.map("\n".join).filter(bool)
TIMES = st.integers(0, 4_000_000_000_000 // MINUTE).map(lambda minutes: minutes * MINUTE)


def exported(role: str, text: str, at: int) -> dict[str, Any]:
    block = {"type": "text", "text": text}
    return {"role": role, "content": [block], "timestamp": at, "model": "m (small), 1"}


MESSAGES = st.builds(exported, st.sampled_from(["user", "assistant", "toolResult"]), WORDS, TIMES)


@given(st.lists(MESSAGES, max_size=6), st.text())
def test_roles_times_and_words_come_back(messages: list[dict[str, Any]], title: str) -> None:
    written = Transcript("agent:main:trip", "s1", title, 0, "", messages)
    imported_session = read_markdown("".join(f"{line}\n" for line in as_markdown(written)))
    said = [message for message in messages if message["role"] != "toolResult"]
    if (
        said and said[-1]["role"] == "user"
    ):  # the last word is an answer, if only that there is none
        assert isinstance(imported_session.messages[-1][1], AssistantMessage)
        assert imported_session.messages[-1][1].stop_reason == "aborted"
    back = [message for _, message in imported_session.messages[: len(said)]]
    assert [
        message.text for message in back if isinstance(message, UserMessage | AssistantMessage)
    ] == [row["content"][0]["text"] for row in said]
    assert [(type(message), message.timestamp) for message in back] == [
        (KINDS[row["role"]], row["timestamp"]) for row in said
    ]
    assert imported_session.report.left_out["results of tools"] == len(messages) - len(said)
    assert (imported_session.session_id, imported_session.report.broken_lines) == ("s1", 0)
