"""`skerry security audit`: prints findings with remedies, from the configuration and the files."""

import os
from argparse import Namespace

from skerry.cli.render import one_line, show, show_json, styled
from skerry.config.load import load_good
from skerry.features.security.safety_audit import CRITICAL, audit, fix


def run(arguments: Namespace) -> int:
    """Runs `skerry security audit`; returns 1 when a critical finding remains."""
    config = load_good(os.environ, fetch=False).config
    findings = audit(config, deep=arguments.deep)
    fixed = [finding for finding in findings if arguments.fix and fix(finding)]
    remaining = [finding for finding in findings if finding not in fixed]
    rows = [
        {
            "id": finding.id,
            "severity": finding.severity,
            "message": finding.message,
            "remedy": finding.remedy,
            "fixed": finding in fixed,
        }
        for finding in findings
    ]
    if arguments.json:
        show_json({"findings": rows})
    else:
        for finding in findings:
            style = "red" if finding.severity == CRITICAL else "yellow"
            state = "fixed" if finding in fixed else finding.severity
            show(f"{styled(state, style)} {finding.id}: {one_line(finding.message)}")
            if finding not in fixed:
                show(f"  Remedy: {one_line(finding.remedy)}")
        if not findings:
            show("No setting or file exposes this installation.")
    return int(any(finding.severity == CRITICAL for finding in remaining))
