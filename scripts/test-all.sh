#!/usr/bin/env bash
# Runs every test, those marked `full` too. What may be skipped even here is listed with its reason in
# tests/skips.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

export SKERRY_FULL=1
(($# == 0)) || exec .venv/bin/pytest "$@"

# One process a core and two more, as each waits for processes and disks much of its time. A file
# stays in one process, so that what its tests share is made once.
cache=.pytest_cache/all code=0
rm -rf "$cache"
.venv/bin/pytest --numprocesses $(($(getconf _NPROCESSORS_ONLN) + 2)) --dist loadfile --no-loadscope-reorder -o cache_dir="$cache" || code=$?
((code < 2)) || exit "$code"

# A few that failed in that crowd run once more, alone and five times: one that fails every second
# time passes so once in 32. What passes then is a defect all the same: of the test, or a race in
# what it tests. So it is written into tests/flaky.toml. Kills and races get no second try.
said=$(.venv/bin/python -m scripts.failed "$cache")
if ((code)); then
    [[ -n $said ]] || exit 1
    mapfile -t alone <<<"$said"
    for _ in 1 2 3 4 5; do .venv/bin/pytest "${alone[@]}"; done
fi
.venv/bin/python -m scripts.failed "$cache" --passed-alone
