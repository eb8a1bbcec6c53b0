"""`skerry skills setup`: installs the programs that a skill needs, after a question."""

import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from msgspec.structs import replace

from skerry.cli.failure import FailedError
from skerry.cli.render import notice, one_line, show, show_json
from skerry.config.root import Config
from skerry.features.skill_registry.cli_parts import confirm, read_config
from skerry.features.skill_registry.downloads import (
    FOLDER,
    MAX_BYTES,
    SECONDS,
    Downloaded,
    fetched,
    put,
)
from skerry.features.skill_registry.errors import SkillError
from skerry.features.skill_registry.needs import InstallPlan, chosen, plans_of
from skerry.infra.process import hand_over
from skerry.model.ids import AgentId
from skerry.model.skill import Skill
from skerry.net.safe_fetch import SafeClient
from skerry.sdk.features import bundled_skills
from skerry.workspace.skill_catalogue import SkillCatalogue


def run(arguments: Namespace) -> int:
    """Runs the command; returns the exit code."""
    config = read_config()
    skill = _skill(config, arguments)
    plans = plans_of(skill.install, is_root=os.geteuid() == 0)
    if arguments.list:
        return _list(skill, plans, as_json=arguments.json)
    missing = _missing(skill)
    if not missing and arguments.option is None:
        return _report(arguments, skill, "present", "Its programs are installed.")
    plan = chosen(plans, arguments.option)
    if plan.missing:
        raise SkillError(f"{plan.missing} is not installed.", f"Install {plan.missing} first.")
    target = config.state_dir / FOLDER / skill.folder.name
    notice(f"{one_line(skill.name)} needs {one_line(', '.join(missing)) or 'nothing more'}.")
    notice(f"  {one_line(plan.text)}" + (f"  into {target}" if not plan.command else ""))
    if not plan.command and not plan.spec.sha256:
        notice("  The skill names no hash, so nothing proves what this address sends.")
    if not arguments.yes:
        confirm("Run it with your rights?", f"Refusing to install programs for {skill.name}")
    if plan.command:
        return _run(arguments, skill, plan)
    downloaded = anyio.run(_download, config, plan, target)
    programs = ", ".join(map(str, downloaded.programs)) or "no program"
    if not arguments.json:
        show(f"{programs} (SHA-256 {downloaded.sha256})")
    folders = sorted({str(path.parent) for path in downloaded.programs})
    return _report(
        arguments,
        skill,
        "installed",
        f"Add to PATH of the gateway: {':'.join(folders)}",
        {"sha256": downloaded.sha256, "programs": list(map(str, downloaded.programs))},
    )


def _skill(config: Config, arguments: Namespace) -> Skill:
    agent = AgentId(arguments.agent) if arguments.agent else config.agents.default_id
    catalogue = SkillCatalogue(os.environ, bundled=bundled_skills())
    skills = catalogue.load(config, agent, every=True)
    skill = skills.find(arguments.name)
    if skill is None:
        raise FailedError(
            f"There is no skill {arguments.name[:80]!r}.", "List them: skerry skills list"
        )
    return skill


def _missing(skill: Skill) -> tuple[str, ...]:
    """Returns the programs of the requirements that are not on PATH."""
    needs = dict(skill.requires)
    lacking = [name for name in needs.get("bins", ()) if shutil.which(name) is None]
    any_bins = needs.get("anyBins", ())
    if any_bins and not any(map(shutil.which, any_bins)):
        lacking.append(" or ".join(any_bins))
    return tuple(lacking)


def _run(arguments: Namespace, skill: Skill, plan: InstallPlan) -> int:
    code = hand_over(plan.command, silent=arguments.json)
    if code:
        raise FailedError(f"{plan.text} failed with the exit code {code}.", "Read its output.")
    missing = _missing(skill)
    if missing:
        raise FailedError(
            f"{plan.text} succeeded, but PATH has no {', '.join(missing)}.",
            "Add the folder of the programs to PATH.",
        )
    return _report(arguments, skill, "installed", "Its programs are installed now.")


async def _download(config: Config, plan: InstallPlan, target: Path) -> Downloaded:
    # The list of hosts limits what agents fetch; a person has agreed to this address.
    rules = replace(config.tools.web.fetch.ssrf_policy.rules, only_hosts=())
    async with SafeClient(rules, idle_limit=0, max_bytes=MAX_BYTES, seconds=SECONDS) as http:
        data = await fetched(http, plan.spec.url)
    return put(data, plan, target)


def _list(skill: Skill, plans: Sequence[InstallPlan], *, as_json: bool) -> int:
    rows = [
        {
            "id": plan.spec.id,
            "kind": plan.spec.kind,
            "label": plan.spec.label,
            "command": list(plan.command),
            "url": plan.spec.url,
            "available": not plan.missing,
        }
        for plan in plans
    ]
    if as_json:
        show_json({"name": skill.name, "missing": list(_missing(skill)), "options": rows})
        return 0
    show(f"{one_line(skill.name)} lacks: {one_line(', '.join(_missing(skill))) or 'nothing'}")
    for plan in plans:
        note = f"  (needs {plan.missing})" if plan.missing else ""
        show(f"  {one_line(plan.spec.id)}: {one_line(plan.text)}{note}")
    return 0


def _report(arguments: Namespace, skill: Skill, status: str, text: str, details: Any = None) -> int:
    if arguments.json:
        show_json({"ok": True, "name": skill.name, "status": status, **(details or {})})
    else:
        show(one_line(f"{skill.name}: {text}"))
    sys.stdout.flush()
    return 0
