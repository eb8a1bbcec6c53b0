"""Messages that are captured: the owner's, and the answers without words of others."""

import pytest

from skerry.sdk.messages import Origin
from skerry.sdk.transcripts import SpokenRow
from skerry_memwal.capture import capturable


def row(
    role: str, origin: Origin, *, is_private: bool = True, is_tainted: bool = False
) -> SpokenRow:
    names = (1, "agent:main:main", "main", "s", "r")
    return SpokenRow(*names, role, role, 1, origin, is_private, is_tainted=is_tainted)


ASKED, READ = row("user", Origin.OWNER), row("tool", Origin.WEB)
ANSWER = row("assistant", Origin.LOCAL)
AFTER = row("assistant", Origin.LOCAL, is_tainted=True)


@pytest.mark.abuse(123)
@pytest.mark.parametrize(
    ("run", "captured"),
    [
        ([ASKED, ANSWER], [ASKED, ANSWER]),
        ([ASKED, READ, ANSWER], [ASKED]),
        ([ASKED, AFTER], [ASKED]),
        ([row("user", Origin.OWNER, is_tainted=True), AFTER], ["user"]),
        ([row("user", Origin.OWNER, is_private=False), ANSWER], []),
    ],
)
def test_an_answer_after_text_of_others_in_its_session_is_not_captured(
    run: list[SpokenRow], captured: list[SpokenRow | str]
) -> None:
    rows = list(capturable(run))
    assert [each.role if "user" in captured else each for each in rows] == captured
