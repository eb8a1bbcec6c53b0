"""Decisions on the labelled commands of `tests/data/exec-commands.jsonl`.

Each row has the name of its configuration below, a command, what a call asks for, and the decision.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from skerry.features.exec import safe_bins
from skerry.features.exec.command_check import ExecRules, check
from skerry.features.exec.modes import most_cautious_ask, strictest_security
from skerry.features.exec.programs import resolve

DATA: Final = Path(__file__).parents[3] / "data" / "exec-commands.jsonl"
ROWS: Final = [json.loads(line) for line in DATA.read_text("utf-8").splitlines()]
SEED: Final = ("npm test", "git status", "git diff *", "ls -la *", "cat *.md")
TRAPS: Final = "awk sed python3 perl xargs tee less bash sh find ls echo date"
WIDE: Final = """
make check
bash scripts/run.sh
find . -name x
touch build/*
cp a.txt out/a.txt
echo *
/usr/bin/ls
stat *
date *
mkdir -p build/*
sort -o out.txt in.txt
du --max-depth=* src
head --lines=* a.txt
sed -n 1,5p a.txt
printf '*'
test -f x
wc '*'
env A=1 make check
sha256sum dist/*.whl
basename *
git log *
git log --oneline *
git show *
git branch
git fetch *
python3 *
perl *
awk *
xargs *
tar *
vim *
less *
ssh *
rsync *
docker *
pip *
npm *
node *
"""
PATHS: Final = """
/usr/bin/ls
/usr/bin/?tat
/usr/bin/gre*
/usr/**/cut
/usr/bin/find
/usr/bin/bash*
/usr/bin/python3*
/usr/bin/*awk
/usr/bin/x*
/usr/bin/su*
/usr/bin/make
/usr/bin/env
/tmp/*
"""
SECOND: Final = """
npm test
git status
git diff *
ls -la *
cat *.md
ls *
echo *
wc *
/usr/bin/stat
make check
python3 scripts/report.py
du -sh *
grep -n * src/*.py
mkdir -p build/*
touch build/*.txt
date +%F
test -f *
diff a.txt *
sort -u data/*.csv
env LANG=C ls
"""
BAD: Final = """
* status
*
git* status
'unclosed
ls -*
ls --*
bash *
nice *
env *
timeout 5 *
time *
command *
sudo *
sudo ls
find *
git -c *
git bisect *
git --*
./run *
../x
run
a
echo -*
python3 *
-*
~
$(id)
"""
CONFIGS: Final = {
    "seed": ExecRules(allowlist=SEED),
    "off": ExecRules(ask="off", allowlist=SEED),
    "full": ExecRules(security="full"),
    "none": ExecRules(),
    "wide": ExecRules(allowlist=tuple(WIDE.splitlines())),
    "paths": ExecRules(allowlist=tuple(PATHS.splitlines())),
    "second": ExecRules(allowlist=tuple(SECOND.splitlines())),
    "bad": ExecRules(allowlist=tuple(BAD.splitlines())),
    "bins": ExecRules(safe_bins=(*safe_bins.DEFAULT, "sort", *TRAPS.split())),
}


@pytest.mark.parametrize("config", CONFIGS)
async def test_each_labelled_command_is_decided_as_its_label_says(config: str) -> None:
    wrong = []
    for row in ROWS:
        if row["config"] == config:
            decided = (await check(row["command"], rules_for(row))).decision
            if decided != expected(row):
                wrong.append((row["id"], row["command"], f"{decided}, not {row['decision']}"))
    assert not wrong


def rules_for(row: dict[str, Any]) -> ExecRules:
    rules = CONFIGS[row["config"]]
    return ExecRules(
        strictest_security((rules.security, row.get("security")), "allowlist"),
        most_cautious_ask((rules.ask, row.get("ask"))),
        rules.allowlist,
        rules.safe_bins,
    )


def expected(row: dict[str, Any]) -> str:
    """Returns the decision; a machine without npm asks about it."""
    is_absent = "npm" in row["command"] and resolve("npm") is None
    return "ask" if is_absent and row["decision"] == "allow" else str(row["decision"])
