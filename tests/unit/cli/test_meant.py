"""Wrong usage names what was meant, and repeats no value that may be a secret."""

import pytest

from skerry.cli.main import main


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["chta"], "unknown command `skerry chta`. Did you mean `skerry chat`?"),
        (["models", "lsit"], "`skerry models lsit`. Did you mean `skerry models list`?"),
        (
            ["sessions", "list", "--limt", "3"],
            "skerry sessions list: error: unrecognized",
        ),
        (["sessions", "list", "--limt=3"], "--limt. Did you mean --limit?"),
        (["agent", "-m", ""], "argument -m/--message: it is empty"),
        (["zzz"], "unknown command `skerry zzz`. `skerry --help` lists all."),
    ],
)
def test_a_typing_error_names_what_was_meant(
    words: list[str], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert meant in err
    assert "choose from" not in err


@pytest.mark.abuse(92)
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["status", "--tokn", "s3cr3t"], "--tokn (hidden)"),
        (["status", "--tokn=s3cr3t"], "unrecognized arguments: --tokn. Did"),
        (["status", "--tokn", "hunter"], "--tokn (hidden). Did you mean --token?"),
        (["status", "s3cr3t"], "unrecognized arguments: (hidden)"),
        (["status", "further"], "unrecognized arguments: further"),
        (["--token", "s3cr3t", "status"], "unknown command `skerry (hidden)`"),
        (["chat", "--t=s3cr3t"], "ambiguous option: --t could match --thinking, --token"),
        (["channels", "login", "telegram", "12:s3cr3t"], "unrecognized arguments: (hidden)"),
    ],
)
def test_no_value_of_wrong_usage_is_repeated(
    words: list[str], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for more in ([], ["--json"]):
        with pytest.raises(SystemExit) as caught:
            main([*words, *more])
        assert caught.value.code == 2
        printed = capsys.readouterr()
        assert shown.strip() in printed.err
        for text in (*printed, getattr(caught.value, "message", "")):
            assert "s3cr3t" not in text
            assert "hunter" not in text
