"""Plugins of several files: imports, refusals, and reloading."""

import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from skerry.cli.main import main
from skerry.features.doctor.gateway_checks import plugins
from skerry.features.plugins.cli_new import create
from skerry.model.errors import PluginError
from skerry.plugins.packages import read_plugin
from skerry.ports.checks import Level
from skerry.testing.plugin import loaded_plugin

PARTS = """
from .parts.deep import answer
def register(api):
    async def run(call): return answer()
    api.register_command("deep", run, description="x")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "pond"
    for name, text in {
        "__init__.py": PARTS,
        "parts/__init__.py": "",
        "parts/deep.py": "from ..words import WORD\ndef answer(): return WORD\n",
        "words.py": "WORD = 'frogs'\n",
    }.items():
        file = folder / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        file.chmod(0o600)
    return folder


async def test_the_modules_of_a_folder_import_each_other(folder: Path) -> None:
    async with loaded_plugin(folder) as plugin:
        assert await plugin.command("deep") == "frogs"
        assert sys.modules["skerry_plugin_pond.words"].__file__ == str(folder / "words.py")


async def test_what_is_imported_is_what_was_checked(folder: Path) -> None:
    package = read_plugin(folder, None, ())
    (folder / "words.py").write_text("WORD = 'toads'\n", "utf-8")
    try:
        package.install()
        assert sys.modules["skerry_plugin_pond.words"].WORD == "frogs"
    finally:
        package.remove()
    assert not [name for name in sys.modules if name.startswith("skerry_plugin_pond")]


def test_a_pinned_folder_with_another_file_is_refused(folder: Path) -> None:
    pin = read_plugin(folder, None, ()).sha256
    assert read_plugin(folder, pin, [folder.parent]).sha256 == pin
    (folder / "more.py").write_text("", "utf-8")
    with pytest.raises(PluginError, match="has changed"):
        read_plugin(folder, pin, ())


def test_a_folder_with_a_file_that_others_may_write_is_refused(folder: Path) -> None:
    (folder / "parts" / "deep.py").chmod(0o622)
    with pytest.raises(PluginError, match="Other users may write"):
        read_plugin(folder, None, ())


def test_a_folder_in_a_workspace_needs_its_hash(folder: Path) -> None:
    with pytest.raises(PluginError, match="is in a workspace"):
        read_plugin(folder, None, [folder.parent])


def test_a_folder_without_a_first_module_is_refused(folder: Path) -> None:
    (folder / "__init__.py").unlink()
    with pytest.raises(PluginError, match=r"no __init__\.py"):
        read_plugin(folder, None, ())


async def test_a_plugin_keeps_files_in_a_folder_of_its_own(folder: Path) -> None:
    (folder / "__init__.py").write_text(
        "def register(api):\n"
        "    (api.data_dir / 'note').write_text('x')\n"
        "    async def run(call): return str(api.data_dir)\n"
        "    api.register_command('where', run, description='x')\n",
        "utf-8",
    )
    async with loaded_plugin(folder) as plugin:
        where = anyio.Path(await plugin.command("where"))
        assert await (where / "note").read_text() == "x"
        assert (where.parent.name, where.name) == ("plugin-data", "pond")
        assert (await where.stat()).st_mode & 0o077 == 0


async def test_a_plugin_whose_files_changed_since_it_was_loaded_is_told(folder: Path) -> None:
    async with loaded_plugin(folder) as plugin:
        (report,) = plugin.plugins.reports
        assert not plugin.plugins.changed(report)
        (folder / "words.py").write_text("WORD = 'toads'\n", "utf-8")
        assert plugin.plugins.changed(report)
    listed = [{"id": "pond", "status": "loaded", "reason": "", "failures": [], "changed": True}]
    assert [plugin.level for plugin in plugins(listed)] == [Level.WARNING]


async def test_a_new_plugin_loads_and_its_own_tests_pass(tmp_path: Path) -> None:
    assert main(["plugins", "new", "tea-time", "--dir", str(tmp_path)]) == 0
    folder = tmp_path / "tea-time-plugin"
    async with loaded_plugin(folder / "tea-time") as plugin:
        assert await plugin.command("tea_time_greet") == "Hello, you!"
    with pytest.raises(PluginError, match=r"plugins\.entries\.tea-time\.config\.greting"):
        async with loaded_plugin(folder / "tea-time", config={"greting": "Ahoy"}):
            pass
    program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    completed = await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            program, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path
        )
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    assert "2 passed" in completed.stdout


@pytest.mark.parametrize("name", ["Tea", "../tea", ""])
def test_a_name_that_is_no_id_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PluginError, match="not a plugin id"):
        create(tmp_path, name)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    create(tmp_path, "tea")
    with pytest.raises(PluginError, match="already"):
        create(tmp_path, "tea")
