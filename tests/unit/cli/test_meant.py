"""A command that does not exist names the one that was meant."""

import pytest

from skerry.cli.main import main


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["chta"], "unknown command `skerry chta`. Did you mean `skerry chat`?"),
        (["models", "lsit"], "`skerry models lsit`. Did you mean `skerry models list`?"),
        (["zzz"], "unknown command `skerry zzz`. `skerry --help` lists all."),
    ],
)
def test_a_typing_error_names_what_was_meant(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert meant in said
    assert "choose from" not in said
