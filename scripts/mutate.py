"""Applies patches that break the source, one at a time, and checks that the named tests fail.

`tests/mutations` lists the patches by part: a text that occurs once in a file, its replacement, and
the tests that must fail. Each patch is applied to a copy of the tree, in which its tests run. `make
mutations` applies all; `ONLY=words` those whose name, file or reason contains the words.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import venv
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
FOLDER: Final = Path("tests/mutations")
DEADLINE: Final = 420
"""Time limit in seconds for the tests of one patch; a test that hangs counts as failed."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A replacement of one text in a file, and the tests that must fail."""

    name: str
    """Defect of the source with the patch."""
    of: tuple[str, ...]
    """Proof of `security.D1` of tests/reviews.toml, `promises`, or `rules.ID`."""
    file: str
    find: str
    put: str
    tests: tuple[str, ...]


def patches(root: Path = ROOT) -> list[Patch]:
    """Returns the patches of a tree, file by file in the order of their names."""
    return [patch for path in sorted((root / FOLDER).glob("*.toml")) for patch in _listed(path)]


def _listed(path: Path) -> Iterator[Patch]:
    for row in tomllib.loads(path.read_text(encoding="utf-8"))["patch"]:
        of, tests = tuple(row["of"]), tuple(row["tests"])
        yield Patch(row["name"], of, row["file"], row["find"], row["put"], tests)


def fault(patch: Patch, root: Path = ROOT) -> str:
    """Returns the reason why a patch cannot be applied; "" if it can."""
    path = root / patch.file
    if not path.is_file():
        return f"there is no {patch.file}"
    text = path.read_text(encoding="utf-8")
    if (count := text.count(patch.find)) != 1:
        return f"{patch.file} has the text to find {count} times"
    if patch.find == patch.put:
        return "it changes nothing"
    if path.suffix == ".py":
        try:
            compile(text.replace(patch.find, patch.put), patch.file, "exec", dont_inherit=True)
        except SyntaxError as error:
            return f"the patched file is not Python: {error}"
    return ""


class Copy:
    """A copy of the tree with an environment that imports from the copy."""

    def __init__(self, folder: Path, source: Path = ROOT) -> None:
        self.root = folder / source.name
        self._folder = folder
        self._source = source
        self._stamp = 1_000_000_000  # seconds since 1970: older than all copied files

    def make(self) -> None:
        """Copies tracked and untracked files, except ignored ones, and makes the environment."""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607
            cwd=self._source,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for name in filter(None, listed.split("\0")):
            source, target = self._source / name, self.root / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        self._environment()

    def _environment(self) -> None:
        # The installed packages are on the path by a .pth file, in which the .pth file of the
        # editable install has no effect: `skerry` is imported from the copy.
        environment = self.root / ".venv"
        venv.create(environment, symlinks=True)
        installed = sysconfig.get_path("purelib")
        path_file = environment / Path(installed).relative_to(sys.prefix) / "copy.pth"
        path_file.write_text(f"{self.root / 'src'}\n{installed}\n", encoding="utf-8")
        command = environment / "bin" / "skerry"
        command.write_text(
            f"#!{environment}/bin/python\nfrom skerry.cli.main import main\n\n"
            "raise SystemExit(main())\n",
            encoding="utf-8",
        )
        command.chmod(0o755)

    def tried(self, patch: Patch) -> dict[str, str]:
        """Applies a patch, runs its tests and reverts it; returns the outcome of each test.

        `failed` is the expected outcome, also for a test that hangs. The others are `passed`,
        `skipped`, `not run` (it cannot be imported) and `broken` (it cannot be set up).
        """
        path = self.root / patch.file
        before = path.read_text(encoding="utf-8")
        try:
            self._write(path, before.replace(patch.find, patch.put))
            return self.outcomes(patch.tests)
        finally:
            self._write(path, before)

    def _write(self, path: Path, text: str) -> None:
        # Python uses a compiled file if second and size in it are those of its source.
        path.write_text(text, encoding="utf-8")
        self._stamp += 2
        os.utime(path, (self._stamp, self._stamp))

    def outcomes(self, tests: Sequence[str]) -> dict[str, str]:
        """Runs tests in the copy; returns the outcome of each, the worst of its cases."""
        report = self._folder / "report.xml"
        report.unlink(missing_ok=True)
        command = [str(self.root / ".venv" / "bin" / "python"), "-m", "pytest", "-q"]
        options = ["-p", "no:cacheprovider", "--tb=line", "--timeout=180", f"--junitxml={report}"]
        env = os.environ | {"SKERRY_FULL": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        env.pop("PYTHONPATH", None)
        running = subprocess.Popen(  # noqa: S603 - the tests that the list names
            [*command, *options, *tests],
            cwd=self.root,
            env=env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            running.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            return dict.fromkeys(tests, "failed")
        finally:
            with suppress(ProcessLookupError):  # ends the processes that a test did not stop
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        return read(report, tests)


ORDER: Final = ("not run", "passed", "skipped", "broken", "failed")


def read(report: Path, tests: Iterable[str]) -> dict[str, str]:
    """Returns the outcome of each test in a report; of several cases the worst counts."""
    outcomes = dict.fromkeys(tests, "not run")
    if not report.is_file():
        return outcomes
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - see above
        file = case.get("classname", "").replace(".", "/")
        name = f"{file}.py::{case.get('name', '').partition('[')[0]}"
        kinds = {child.tag for child in case}
        outcome = "passed"
        for tag, word in (("skipped", "skipped"), ("error", "broken"), ("failure", "failed")):
            outcome = word if tag in kinds else outcome
        if name in outcomes:
            outcomes[name] = max(outcomes[name], outcome, key=ORDER.index)
    return outcomes


def main(argv: Sequence[str] | None = None, source: Path = ROOT) -> int:
    """Applies the patches of a tree; returns 1 if one is not noticed or cannot be applied."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="words of a name, a file or a reason")
    words = " ".join(parser.parse_args(argv).only)
    listed = patches(source)
    chosen = [row for row in listed if words in f"{row.name}\n{row.file}\n{' '.join(row.of)}"]
    noticed = 0
    with tempfile.TemporaryDirectory(prefix="skerry-mutate-") as folder:
        copy = Copy(Path(folder), source)
        copy.make()
        for number, patch in enumerate(chosen, 1):
            began = time.monotonic()
            problems = _problems(patch, copy)
            noticed += not problems
            took = f"({time.monotonic() - began:.0f} s)"
            word = "NOT NOTICED" if problems else "noticed"
            print(f"{number}/{len(chosen)} {word}: {patch.name} {took}", flush=True)
            for problem in problems:
                print(f"    {problem}", flush=True)
    print(f"{noticed} of {len(chosen)} patches are noticed by every test that they name")
    return 0 if chosen and noticed == len(chosen) else 1


def _problems(patch: Patch, copy: Copy) -> list[str]:
    if reason := fault(patch, copy.root):
        return [reason]
    outcomes = copy.tried(patch)
    return [f"{outcome}: {test}" for test, outcome in outcomes.items() if outcome != "failed"]


if __name__ == "__main__":
    raise SystemExit(main())
