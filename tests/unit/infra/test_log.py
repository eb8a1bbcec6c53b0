"""The log: its files, its redaction, and its recovery from failures."""

import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skerry.infra import log
from skerry.infra.log import REDACTED, Behind, DailyFiles, Lines, Plain, Redactor, tail, writing
from skerry.testing.clock import FakeClock

DAY = 86_400_000
NOW = 1_795_294_566_394  # 2026-11-21
logger = logging.getLogger("skerry.test")


def record(message: str, *arguments: object) -> logging.LogRecord:
    return logging.LogRecord("skerry.test", logging.INFO, "", 0, message, arguments, None)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer SECRETSECRET1",
        "authorization='Basic SECRETSECRET1=='",
        "bearer SECRETSECRET1",
        "with api_key=SECRETSECRET1 in it",
        '{"apiKey": "SECRETSECRET1"}',
        "GET /v1?token=SECRETSECRET1&x=1",
        "http://127.0.0.1:18789/#token=SECRETSECRET1",
        "https://user:SECRETSECRET1@example.org/x",
        "sk-SECRETSECRET1-abcdefgh",
        "ghp_SECRETSECRET1abcdefghij",
        "xoxb-SECRETSECRET1",
        "AIzaSECRETSECRET1abcdefghijklmnopqrstuvw",
        "12345678:SECRETSECRET1abcdefghijklmnopqrstuv",
        "-----BEGIN RSA PRIVATE KEY-----\nSECRETSECRET1\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_secret_is_not_logged(text: str) -> None:
    shown = Redactor()(text)
    assert "SECRETSECRET1" not in shown
    assert REDACTED in shown


def test_known_secrets_are_not_logged_at_any_position() -> None:
    redact = Redactor()
    redact.set_secrets(["hunter2!", "hunter2", "x"])
    assert redact("ahunter2!b hunter2 x") == f"a{REDACTED}b {REDACTED} x"
    redact.set_secrets([])
    assert redact("hunter2") == "hunter2"


@pytest.mark.parametrize(
    "text",
    ["the token is missing", "basic settings", "tokens: 123456", "https://example.org/a@b", "sk-1"],
)
def test_ordinary_words_stay(text: str) -> None:
    assert Redactor()(text) == text


def test_a_line_of_the_file_is_one_json_object_with_its_traceback() -> None:
    error = ValueError("bearer SECRETSECRET1")
    raised = (ValueError, error, None)
    one = logging.LogRecord("a.b", logging.ERROR, "", 0, "it\nbroke", (), raised)
    line = Lines(Redactor()).format(one)
    assert "\n" not in line
    report = json.loads(line)
    assert report.keys() == {"time", "level", "logger", "message", "error"}
    assert (report["level"], report["logger"], report["message"]) == ("error", "a.b", "it\nbroke")
    assert report["time"].endswith("Z")
    assert report["error"] == f"ValueError: bearer {REDACTED}"


@pytest.mark.abuse(31)
def test_no_text_makes_a_line_of_its_own_or_steers_a_terminal() -> None:
    told = record("client %s left", "x\r\n2026 ERROR skerry: all is lost\x1b[2J\x9b1m\u2028")
    for line in (Plain(Redactor()).format(told), Lines(Redactor()).format(told)):
        assert line.isprintable()


def test_stderr_hides_what_a_traceback_says() -> None:
    one = record("asked with token=%s", "SECRETSECRET1")
    assert Plain(Redactor()).format(one).endswith(f"INFO skerry.test: asked with token={REDACTED}")


@contextmanager
def behind(write: Callable[[str], None]) -> Iterator[Behind]:
    handler = Behind(logging.Formatter("%(message)s"), write)
    try:
        yield handler
    finally:
        handler.close()


def test_a_disk_that_hangs_stops_nobody_and_what_was_lost_is_counted() -> None:
    written: list[str] = []
    hanging, go_on = threading.Event(), threading.Event()

    def write(line: str) -> None:
        hanging.set()
        assert go_on.wait(60)
        written.append(line)

    with behind(write) as handler:
        handler.emit(record("0"))
        assert hanging.wait(60)
        for number in range(1, log.WAITING + 4):
            handler.emit(record(str(number)))
        go_on.set()
    assert written[:3] == ["0", "3 lines of the log were lost", "1"]
    assert written[-1] == str(log.WAITING)


def test_a_full_disk_loses_lines_and_says_how_many_when_there_is_room() -> None:
    written: list[str] = []
    room = False
    tried = threading.Semaphore(0)

    def write(line: str) -> None:
        tried.release()
        if not room:
            raise OSError(28, "No space left on device")
        written.append(line)

    with behind(write) as handler:
        for text in ("a", "b"):
            handler.emit(record(text))
            assert tried.acquire(timeout=60)
        room = True
        handler.emit(record("c"))
    assert written == ["2 lines of the log were lost", "c"]


def test_a_file_a_day_for_the_owner_only_and_old_ones_go(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    clock = FakeClock(NOW)
    write = DailyFiles(folder, clock)
    for day in range(log.KEEP_FILES + 2):
        write(f"day {day}")
        clock.advance(DAY)
    write.close()
    names = [path.name for path in log.files(folder)]
    assert len(names) == log.KEEP_FILES
    assert names[0] == "skerry-2026-11-23.log"
    assert {path.stat().st_mode & 0o777 for path in log.files(folder)} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_loud_day_has_two_files_of_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_BYTES", 100)
    write = DailyFiles(tmp_path, FakeClock(NOW))
    for number in range(100):
        write(f"line {number}")
    write.close()
    older, newer = log.files(tmp_path)
    assert (older.name, newer.name) == ("skerry-2026-11-21.1.log", "skerry-2026-11-21.log")
    assert max(older.stat().st_size, newer.stat().st_size) <= 100
    assert newer.read_text().endswith("line 99\n")


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    (tmp_path / "skerry-2026-11-21.log").symlink_to(target)
    with pytest.raises(OSError, match="symbolic"):
        DailyFiles(tmp_path, FakeClock(NOW))("line")
    assert not target.exists()


def test_logging_goes_to_the_folder_for_the_block(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    redact = Redactor()
    redact.set_secrets(["hunter2"])
    with writing(tmp_path, redact, FakeClock(NOW)):
        logger.debug("not this")
        logger.info("only in the file: hunter2")
        logger.warning("in both")
    logger.warning("too late")
    lines = tail(tmp_path, cursor=None, limit=10, max_bytes=10_000).lines
    assert [json.loads(line)["message"] for line in lines] == [
        f"only in the file: {REDACTED}",
        "in both",
    ]
    err = capsys.readouterr().err
    assert "in both" in err
    assert "only in the file" not in err


def fill(folder: Path, *lines: str, end: str = "\n") -> Path:
    path = folder / "skerry-2026-11-21.log"
    with path.open("a") as file:
        file.write("\n".join(lines) + end)
    return path


def test_no_log_is_an_empty_one(tmp_path: Path) -> None:
    assert tail(tmp_path / "none", cursor=None, limit=5, max_bytes=100).lines == ()


def test_the_tail_goes_on_where_it_ended(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b", "c")
    first = tail(tmp_path, cursor=None, limit=2, max_bytes=1000)
    assert (first.lines, first.truncated, first.reset) == (("b", "c"), True, False)
    assert first.cursor == first.size == 6
    assert tail(tmp_path, cursor=first.cursor, limit=2, max_bytes=1000).lines == ()
    fill(tmp_path, "d", "half", end="")
    second = tail(tmp_path, cursor=first.cursor, limit=2, max_bytes=1000)
    assert (second.lines, second.truncated, second.cursor) == (("d",), False, 8)
    fill(tmp_path, " whole")
    third = tail(tmp_path, cursor=second.cursor, limit=2, max_bytes=1000)
    assert third.lines == ("half whole",)


def test_the_tail_is_bounded_in_bytes_and_has_whole_lines(tmp_path: Path) -> None:
    fill(tmp_path, "x" * 50, "yy", "zz")
    found = tail(tmp_path, cursor=None, limit=10, max_bytes=20)
    assert (found.lines, found.truncated) == (("yy", "zz"), True)
    at_the_edge = tail(tmp_path, cursor=None, limit=10, max_bytes=6)
    assert at_the_edge.lines == ("yy", "zz")
    nothing = tail(tmp_path, cursor=10, limit=10, max_bytes=2)
    assert (nothing.lines, nothing.truncated) == ((), True)


def test_a_cursor_of_another_file_starts_over(tmp_path: Path) -> None:
    fill(tmp_path, "a")
    found = tail(tmp_path, cursor=5000, limit=10, max_bytes=100)
    assert (found.lines, found.reset) == (("a",), True)
