"""`scripts/bootstrap.py` installs again exactly when something changed, and shows its steps."""

import sys
from pathlib import Path

import pytest

from scripts.bootstrap import DEMO_MODEL, InstallError, Progress, is_current, requirements, wanted

WANT = {"profile": "user", "project": "hash", "folder": "/srv/skerry", "python": "3.11"}


@pytest.mark.parametrize(
    ("have", "current"),
    [
        pytest.param(WANT, True, id="the same"),
        pytest.param({**WANT, "profile": "dev"}, True, id="a developer's has more"),
        pytest.param({**WANT, "project": "other"}, False, id="pyproject changed"),
        pytest.param({**WANT, "folder": "/srv/moved"}, False, id="folder moved"),
        pytest.param({**WANT, "python": "3.12"}, False, id="another Python"),
        pytest.param({}, False, id="never finished"),
    ],
)
def test_it_installs_again_when_something_changed(have: dict[str, str], current: bool) -> None:  # noqa: FBT001 - a parameter of the table
    assert is_current(have, WANT) is current


def test_a_user_s_environment_does_not_serve_a_developer() -> None:
    assert not is_current(WANT, {**WANT, "profile": "dev"})


def test_the_stamp_depends_on_the_project_file() -> None:
    assert len(wanted("user")["project"]) == 64


def test_the_local_runtime_is_an_extra_and_the_model_is_none() -> None:
    names = [one.split(">")[0] for one in requirements("local")]
    assert names == ["xllamacpp"]
    assert DEMO_MODEL.split(">")[0] not in names


def test_a_step_says_its_number_and_keeps_its_output_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "install.log"
    Progress(4, log, live=False).run(2, "Greeting", [sys.executable, "-c", "print('hello')"])
    assert capsys.readouterr().out.startswith("[2/4] Greeting ...\n[2/4] Greeting: done after ")
    assert log.read_text(encoding="utf-8").endswith("hello\n")


def test_a_step_that_fails_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(4, tmp_path / "install.log", live=True)
    with pytest.raises(InstallError, match="Breaking"):
        progress.run(3, "Breaking", [sys.executable, "-c", "raise SystemExit(3)"])
    assert "\r[3/4] Breaking: failed after " in capsys.readouterr().out
