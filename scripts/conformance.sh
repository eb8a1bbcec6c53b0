#!/usr/bin/env bash
# Installs two versions of OpenClaw (2 GB, about five minutes) and runs their programs against a gateway.
set -euo pipefail
cd "$(dirname "$0")/.."

node=tests/conformance/node
if [[ ! -x "$node/node_modules/.bin/node" ]]; then
    npm ci --prefix "$node" --no-audit --no-fund --loglevel=error
fi
for folder in tests/conformance/openclaw/*/; do
    if [[ ! -e "$folder/node_modules/openclaw" ]]; then
        echo "Installing OpenClaw $(basename "$folder")"
        # Its scripts download more; nothing here needs that.
        npm install --prefix "$folder" --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error
    fi
done

SKERRY_OPENCLAW=1 exec .venv/bin/pytest tests/conformance/openclaw -rA "$@"
