"""Plugins are copied from folders and wheels; nothing of them lands outside their folder."""

import zipfile
from pathlib import Path

import pytest

from skerry.model.errors import PluginError
from skerry.plugins import installing
from skerry.plugins.installing import install, remove

MANIFEST = '{"id": "pond", "version": "1"}'
MAIN = "def register(api):\n    pass\n"


def wheel(folder: Path, files: dict[str, str]) -> Path:
    """Writes a wheel with these members, which may have any name."""
    path = folder / "pond-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_wheel_becomes_a_folder_of_its_package_alone(tmp_path: Path) -> None:
    files = {
        "pond/__init__.py": MAIN,
        "pond/deep/words.txt": "tea",
        "pond/openclaw.plugin.json": MANIFEST,
        "pond-1.dist-info/RECORD": "",
    }
    installed = install(wheel(tmp_path, files), tmp_path / "extensions")
    assert installed.id == "pond"
    assert everything(tmp_path / "extensions") == {
        *("pond", "pond/__init__.py", "pond/openclaw.plugin.json"),
        *("pond/deep", "pond/deep/words.txt"),
    }
    assert remove(tmp_path / "extensions", "pond")
    assert everything(tmp_path / "extensions") == set()


@pytest.mark.abuse(81)
@pytest.mark.parametrize(
    "name",
    ["../evil.py", "pond/../../evil.py", "/etc/evil.py", "pond/..\\..\\evil.py", "C:\\evil.py"],
)
def test_a_member_whose_name_leads_out_refuses_the_wheel(tmp_path: Path, name: str) -> None:
    source = wheel(tmp_path, {"pond/__init__.py": MAIN, name: "x"})
    before = everything(tmp_path)
    with pytest.raises(PluginError, match="lead out"):
        install(source, tmp_path / "extensions")
    assert everything(tmp_path) - before == {"extensions"}


def test_a_link_in_a_wheel_becomes_a_plain_file(tmp_path: Path) -> None:
    source = wheel(tmp_path, {"pond/__init__.py": MAIN})
    info = zipfile.ZipInfo("pond/passwd")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(source, "a") as archive:
        archive.writestr(info, "/etc/passwd")
    installed = install(source, tmp_path / "extensions")
    copy = installed.path / "passwd"
    assert not copy.is_symlink()
    assert copy.read_text("utf-8") == "/etc/passwd"


def test_a_link_in_a_folder_refuses_it(tmp_path: Path) -> None:
    source = tmp_path / "pond"
    source.mkdir()
    (source / "__init__.py").write_text(MAIN, "utf-8")
    (source / "passwd").symlink_to("/etc/passwd")
    with pytest.raises(PluginError, match="is a link"):
        install(source, tmp_path / "extensions")


def test_a_wheel_that_grows_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installing, "MAX_BYTES", 1 << 20)
    source = wheel(tmp_path, {"pond/__init__.py": MAIN, "pond/zeros": "0" * (1 << 21)})
    assert source.stat().st_size < 1 << 16
    with pytest.raises(PluginError, match="more than"):
        install(source, tmp_path / "extensions")
    assert everything(tmp_path / "extensions") == set()


@pytest.mark.parametrize(
    "files",
    [{}, {"a/__init__.py": MAIN, "b/__init__.py": MAIN}, {"a/deep/__init__.py": MAIN}],
    ids=["none", "two", "deep"],
)
def test_a_wheel_without_exactly_one_package_is_refused(
    tmp_path: Path, files: dict[str, str]
) -> None:
    with pytest.raises(PluginError, match="not one"):
        install(wheel(tmp_path, files), tmp_path / "extensions")


def test_a_second_plugin_of_the_same_id_names_the_remedy(tmp_path: Path) -> None:
    source = wheel(tmp_path, {"pond/__init__.py": MAIN})
    install(source, tmp_path / "extensions")
    with pytest.raises(PluginError, match="already") as refused:
        install(source, tmp_path / "extensions")
    assert "skerry plugins remove pond" in refused.value.remedy


@pytest.mark.parametrize("what", ["nothing.whl", "text.txt"])
def test_what_is_no_plugin_is_refused(tmp_path: Path, what: str) -> None:
    source = tmp_path / what
    if source.suffix == ".txt":
        source.write_text("x", "utf-8")
    with pytest.raises(PluginError):
        install(source, tmp_path / "extensions")


def test_code_that_is_no_python_is_refused(tmp_path: Path) -> None:
    source = wheel(tmp_path, {"pond/__init__.py": "def register(:"})
    with pytest.raises(PluginError, match="not Python"):
        install(source, tmp_path / "extensions")


@pytest.mark.parametrize("plugin", ["../state", "", "nothing"])
def test_remove_takes_nothing_but_an_installed_plugin(tmp_path: Path, plugin: str) -> None:
    (tmp_path / "extensions").mkdir()
    (tmp_path / "state").mkdir()
    assert not remove(tmp_path / "extensions", plugin)
    assert (tmp_path / "state").exists()


def test_a_folder_around_a_plugin_is_refused_with_the_name_of_the_folder_to_pass(
    tmp_path: Path,
) -> None:
    plugin = tmp_path / "pond-plugin" / "pond"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text(MAIN)
    with pytest.raises(PluginError, match="so it is not a plugin") as caught:
        install(tmp_path / "pond-plugin", tmp_path / "extensions")
    assert caught.value.remedy == f"Pass the folder that has __init__.py, such as {plugin}."
