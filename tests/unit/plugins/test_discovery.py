"""Plugins of installed packages: candidates, imports, and the choice between two with one id."""

import sys
from pathlib import Path
from typing import Any

import pytest

from skerry.commands.table import CommandTable
from skerry.config.check import check
from skerry.config.root import Config
from skerry.hooks.hooks import Hooks
from skerry.plugins.discovery import candidates
from skerry.plugins.inspecting import inspect
from skerry.plugins.loader import Plugins, load_plugins

CODE = """
async def run(call): return "green"
def register(api): api.register_command("tea", run, description="tea")
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, of which one has the plugin `tea`."""
    site = tmp_path / "site"
    install(site, "tea_house", "tea")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "tea_house", raising=False)
    return site


def install(site: Path, package: str, plugin: str, code: str = CODE) -> None:
    info = site / f"{package}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[skerry.plugins]\n{plugin} = {package}:register\n")
    (site / f"{package}.py").write_text(code)
    (site / f"{package}.py").chmod(0o600)


def configured(home: Path, **plugins: Any) -> Config:
    path = home / "skerry.json"
    config, _ = check({"plugins": plugins}, state_dir=home / "state", path=path)
    return config


async def loaded(config: Config) -> Plugins:
    async with Hooks() as hooks:
        return await load_plugins(config, hooks, CommandTable(), ())


def test_an_installed_plugin_is_found_and_not_imported(site: Path, tmp_path: Path) -> None:
    config = configured(tmp_path)
    (found,) = [
        candidate for candidate in candidates(config, installed=True) if candidate.id == "tea"
    ]
    assert (found.path, found.origin) == (site / "tea_house.py", "the installed package tea_house")
    (report,) = [report for report in inspect(config) if report.id == "tea"]
    assert report.reason == "It is installed; plugins.entries.tea.enabled switches it on."
    assert "tea" not in {candidate.id for candidate in candidates(config, installed=False)}
    assert "tea_house" not in sys.modules


async def test_an_installed_plugin_that_the_configuration_names_is_loaded(
    site: Path, tmp_path: Path
) -> None:
    plugins = await loaded(configured(tmp_path, entries={"tea": {}}))
    (report,) = plugins.reports
    assert (report.status, report.commands, report.path) == (
        "loaded",
        ("tea",),
        str(site / "tea_house.py"),
    )


async def test_a_package_that_others_may_write_is_refused(site: Path, tmp_path: Path) -> None:
    (site / "tea_house.py").chmod(0o666)
    (report,) = (await loaded(configured(tmp_path, entries={"tea": {}}))).reports
    assert (report.status, "Other users may write" in report.reason) == ("failed", True)
    assert "tea_house" not in sys.modules


async def test_the_loser_of_two_with_one_id_is_told_which_comes_first(
    site: Path, tmp_path: Path
) -> None:
    install(site, "zen_house", "tea", "raise ValueError")
    file = tmp_path / "tea.py"
    file.write_text(CODE)
    file.chmod(0o600)
    first, *rest = (
        await loaded(configured(tmp_path, load={"paths": ["tea.py"]}, entries={"tea": {}}))
    ).reports
    assert (first.status, first.path, rest) == ("loaded", str(file), [])
    first, second = (await loaded(configured(tmp_path, entries={"tea": {}}))).reports
    assert (first.status, first.path) == ("loaded", str(site / "tea_house.py"))
    assert second.status == "failed"
    assert (
        second.reason == "the installed package tea_house has the id tea too and is used instead."
    )
    reports = inspect(configured(tmp_path, load={"paths": ["tea.py"]}))
    reasons = [report.reason for report in reports if report.id == "tea"]
    text = f"{file} of plugins.load.paths has the id tea too and is used instead."
    assert reasons == ["", text, text]
