"""What options of commands may be."""

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from skerry.cli.options import token


def test_a_token_is_taken_as_it_is_or_from_the_first_line_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("  5eed\nmore\n")
    assert (token("5eed"), token(f"@{file}")) == ("5eed", "5eed")


@pytest.mark.parametrize(
    ("content", "says"), [(None, "No such file"), (b"\n", "empty line"), (b"\xff", "not text")]
)
def test_a_file_without_a_token_is_refused(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ArgumentTypeError, match=says):
        token(f"@{file}")
