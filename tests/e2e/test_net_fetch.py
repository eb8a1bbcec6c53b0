"""`skerry net fetch` in a separate network: the requests at public and private addresses."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.requirements import ROOT

HOSTS = """127.0.0.1 localhost
93.184.216.34 a.example mixed.example
1.1.1.1 b.example
10.0.0.1 inner.example mixed.example
169.254.169.254 metadata.example
"""
CASES = [
    ("http://a.example/", "allow", "public"),
    ("http://b.example:8080/x", "allow", "public"),
    ("http://93.184.216.34/", "allow", "public"),
    ("http://a.example/to/http://b.example/y", "allow", "public"),
    ("http://inner.example/", "block", "address-private"),
    ("http://mixed.example/", "block", "address-private"),
    ("http://metadata.example/", "block", "address-metadata"),
    ("http://127.0.0.1:8080/", "block", "address-loopback"),
    ("http://[::ffff:10.0.0.1]/", "block", "address-embedded-ipv4"),
    ("http://0xa.1/", "block", "ipv4-form"),
    ("http://localhost/", "block", "single-label"),
    ("http://nowhere.example/", "block", "name-unresolved"),
    ("http://a.example/to/http://10.0.0.1/", "block", "address-private"),
    ("http://a.example/to/http://169.254.169.254/", "block", "address-metadata"),
    ("http://a.example/to/http://b.example:22/", "block", "port"),
    ("http://a.example:8443/", "abort", "connect"),
]


@pytest.mark.full("network namespaces")
@pytest.mark.abuse(96)
def test_servers_see_the_connections_that_the_policy_allows_and_no_others(tmp_path: Path) -> None:
    unshare = shutil.which("unshare")
    if unshare is None or shutil.which("ip") is None:
        pytest.skip("needs unshare and ip")
    hosts = tmp_path / "hosts"
    hosts.write_text(HOSTS)
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    lines = [json.dumps({"id": url, "url": url}) + "\n" for url, _, _ in CASES]
    program = str(Path(sys.executable).with_name("skerry"))
    script = str(ROOT / "tests/support/net_namespace.py")
    completed = subprocess.run(
        [unshare, "--net", "--mount", *rights, sys.executable, script, str(hosts), program],
        input="".join(lines),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "SKERRY_STATE_DIR": str(tmp_path), "HTTP_PROXY": "http://10.0.0.1"},
    )
    assert completed.returncode == 0, completed.stderr
    report = json.loads(completed.stdout)
    told = [(answer["id"], answer["verdict"], answer["rule"]) for answer in report["answers"]]
    assert told == CASES
    assert sorted(map(tuple, report["connections"])) == sorted(
        [*[("93.184.216.34", 80)] * 6, ("1.1.1.1", 8080), ("1.1.1.1", 80)]
    )
