"""Runs the benchmarks of this folder, or those named, each in a process of its own."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main() -> int:
    """Return 1 if a benchmark could not run; a missed budget is printed and no failure."""
    names = sys.argv[1:] or sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))
    failed = []
    for name in names:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, FOLDER / f"{name}.py"], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"could not run: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
