"""What options of commands may be."""

from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path

import pytest

from skerry.cli.options import command, subcommands, token


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


def test_several_features_may_add_subcommands_to_one_command() -> None:
    parser = ArgumentParser()
    command(subcommands(parser), "list", "first", "list all")
    command(subcommands(parser), "search", "second", "search for some")
    parsed = [parser.parse_args([word]).module for word in ("list", "search")]
    assert parsed == ["first", "second"]
