"""How conversations are printed and exported."""

from typing import Any

from skerry.features.sessions.cli_transcripts import Transcript, as_markdown, as_text


def transcript_line(role: str, *texts: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    return {"role": role, "content": content, "timestamp": 1, **more}


def test_an_answer_that_says_nothing_is_no_empty_block() -> None:
    messages = [
        transcript_line("user", "hi"),
        transcript_line("assistant", model="quiet"),
        transcript_line("assistant", model="broken", errorMessage="it broke off"),
        transcript_line("assistant", "hello", model="loud"),
    ]
    transcript = Transcript("agent:main:main", "s", "t", 1, "/", messages)
    for lines in (as_text(transcript), as_markdown(transcript)):
        whole = "\n".join(lines)
        assert "quiet" not in whole
        assert whole.index("broken") < whole.index("it broke off") < whole.index("loud")
