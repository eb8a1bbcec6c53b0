"""The system prompt for any files: equal inputs give equal prompts, and changing parts are last."""

from datetime import date
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from skerry.features.files.read_tool import Read
from skerry.model.ids import AgentId
from skerry.ports.model import ModelInfo
from skerry.workspace.prompt_files import ORDER, FileLimits, FileText, fitted
from skerry.workspace.prompt_sections import PromptSubject, Today, joined, system_prompt

SUBJECT = PromptSubject("", AgentId("main"), Path("/w"), ModelInfo("p", "m", "M"))
TODAY = Today(date(2026, 11, 22), "UTC")

texts = st.dictionaries(st.sampled_from(ORDER), st.text(max_size=200))


def prompt(files: dict[str, str], today: Today = TODAY, override: str = "") -> str:
    file_texts = [FileText(name, files[name].strip()) for name in ORDER if name in files]
    return joined(
        system_prompt(SUBJECT, (Read.spec,), fitted(file_texts, FileLimits()), today, override)
    )


@given(texts)
def test_equal_files_give_equal_bytes(files: dict[str, str]) -> None:
    assert prompt(files).encode() == prompt(dict(files)).encode()


@given(texts, st.text(max_size=100))
def test_what_one_run_adds_changes_nothing_before_it(files: dict[str, str], override: str) -> None:
    assert prompt(files, override=override).startswith(prompt(files))


@given(texts, st.dates())
def test_another_day_changes_nothing_before_the_date(files: dict[str, str], day: date) -> None:
    one, other = prompt(files), prompt(files, Today(day, "UTC"))
    position = one.rindex("## Date")
    assert one[:position] == other[:position]
