"""Commands of git in repositories that a model may have made."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from skerry.features.exec.command_check import ExecRules, check
from skerry.features.exec.gateway_host import environment
from skerry.features.exec.git_config import MAX_BYTES, problem
from skerry.policy.effect import ToolEffect

PLAIN = """[core]
\trepositoryformatversion = 0
\tbare = false ; a comment
# another
[remote "origin"]
\turl = https://example.org/a.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
[user]
\tname = A = B
"""


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["/usr/bin/git", *words],
        cwd=folder,
        env=environment({"HOME": "/nonexistent"}),
        check=False,
        capture_output=True,
        timeout=60,
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


@pytest.fixture
def project(root: Path) -> Path:
    """A repository below the workspace."""
    folder = root / "project" / "inner"
    folder.mkdir(parents=True)
    (root / "project" / ".git" / "hooks").mkdir(parents=True)
    (root / "project" / ".git" / "hooks" / "pre-commit.sample").touch()
    (root / "project" / ".git" / "config").write_text(PLAIN)
    return folder


def test_a_plain_repository_and_none_need_no_look(root: Path, project: Path) -> None:
    assert problem(project, root) == ""
    assert problem(root, root) == ""
    (root / "elsewhere").mkdir()
    assert problem(root / "elsewhere", root) == ""


@pytest.mark.parametrize(
    "text",
    [
        "[core]\nfsmonitor = touch x\n",
        "[core] fsmonitor = touch x\n",
        "[CORE]\n\tFSMonitor=touch x\n",
        "[core]\n\thooksPath = ../hooks\n",
        "[core]\nworktree = /\n",
        '[filter "x"]\n\tclean = touch x\n',
        '[diff "x"]\n\ttextconv = touch x\n',
        "[diff]\n\texternal = touch x\n",
        "[include]\n\tpath = ../other\n",
        '[includeIf "gitdir:/"]\n\tpath = ../other\n',
        "[alias]\n\tstatus = !touch x\n",
        "[extensions]\n\tworktreeConfig = true\n",
        '[remote "origin"]\n\turl = ../other.git\n',
        '[remote "origin"]\n\turl = https://example.org/a.git\n\turl = /srv/other.git\n',
        '[remote "origin"]\n\tpushurl = file:///srv/other.git\n',
        '[remote "origin"]\n\turl = ext::sh -c x\n',
        '[remote "origin"]\n\turl\n',
        '[branch "main"]\n\tremote = ../other.git\n',
        '[branch "main"]\n\tremote = inner\n',
        "[core]\n\tabbrev = 7\\\n\tfsmonitor = x\n",
        '[remote "a\\"]\n[core]\n\tfsmonitor = x\n',
        "fsmonitor = x\n",
        "[core.x]\n",
        "#" * (MAX_BYTES + 1),
    ],
)
def test_a_setting_that_may_run_something_is_named(root: Path, project: Path, text: str) -> None:
    (root / "project" / ".git" / "config").write_text(text)
    assert "config" in problem(project, root)


def hook(git_folder: Path) -> None:
    (git_folder / "hooks" / "post-index-change").touch()


def hooks_elsewhere(git_folder: Path) -> None:
    (git_folder / "hooks" / "pre-commit.sample").unlink()
    (git_folder / "hooks").rmdir()
    (git_folder / "hooks").symlink_to("/tmp")  # noqa: S108 - a path that is named


def pointer(git_folder: Path) -> None:
    git_folder.rename(git_folder.with_name("away"))
    git_folder.write_text("gitdir: away\n")


def link(git_folder: Path) -> None:
    git_folder.rename(git_folder.with_name("away"))
    git_folder.symlink_to("away")


def common(git_folder: Path) -> None:
    (git_folder / "commondir").write_text("../other")


def worktree(git_folder: Path) -> None:
    (git_folder / "config.worktree").write_text("[core]")


def pipe(git_folder: Path) -> None:
    (git_folder / "config").unlink()
    os.mkfifo(git_folder / "config")


def linked_config(git_folder: Path) -> None:
    (git_folder / "config").rename(git_folder / "other")
    (git_folder / "config").symlink_to("other")


def none(git_folder: Path) -> None:
    (git_folder / "config").unlink()


def old_remote(git_folder: Path) -> None:
    (git_folder / "remotes").mkdir()
    (git_folder / "remotes" / "origin").write_text("URL: ../other.git\n")


def alternates(git_folder: Path) -> None:
    (git_folder / "objects" / "info").mkdir(parents=True)
    (git_folder / "objects" / "info" / "alternates").write_text("/srv/other.git/objects\n")


def split_index(git_folder: Path) -> None:
    (git_folder / "index").touch()
    (git_folder / "sharedindex.1").touch()


def no_index(git_folder: Path) -> None:
    (git_folder / "index").mkdir()


def bare(git_folder: Path) -> None:
    for name in ("HEAD", "objects", "refs"):
        (git_folder.parent / name).mkdir()


@pytest.mark.parametrize(
    "make",
    [
        *(hook, hooks_elsewhere, pointer, link, common, worktree, pipe, linked_config, none, bare),
        *(old_remote, alternates, split_index, no_index),
    ],
)
def test_what_leads_elsewhere_is_named(
    root: Path, project: Path, make: Callable[[Path], None]
) -> None:
    make(root / "project" / ".git")
    assert problem(project, root)


def test_the_repository_of_the_workspace_is_its_owners(root: Path) -> None:
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("[core]\nfsmonitor = mine\n")
    (root / "folder").mkdir()
    assert problem(root / "folder", root) == ""
    assert "fsmonitor" in problem(root / "folder")


@pytest.mark.abuse(85)
async def test_a_pattern_does_not_cover_git_where_a_repository_names_a_program(
    root: Path, project: Path
) -> None:
    rules = ExecRules(allowlist=("git status", "ls *"), cwd=project, root=root)
    assert (await check("git status", rules)).decision is ToolEffect.ALLOW
    (root / "project" / ".git" / "config").write_text("[core]\nfsmonitor = touch x\n")
    for command in ("git status", "ls && git status", "nice git status"):
        decision = await check(command, rules)
        assert (decision.decision, decision.rule) == (ToolEffect.ASK, "git-config")
        assert decision.patterns == ()
        assert "core.fsmonitor" in decision.reason
    assert (await check("ls", rules)).decision is ToolEffect.ALLOW
    off = ExecRules(ask="off", allowlist=("git status",), cwd=project, root=root)
    assert (await check("git status", off)).decision is ToolEffect.DENY


def repository_with_submodule(folder: Path, program: Path) -> None:
    """Makes a repository whose submodule names a program."""
    git(folder.parent, "init", "-q", folder.name)
    git(folder, "init", "-q", "inner")
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    (folder / "inner" / "file").write_text("text\n")
    (folder / "inner" / ".gitattributes").write_text("* filter=x\n")
    git(folder / "inner", "add", ".")
    git(folder / "inner", *who, "commit", "-qm", "first")
    git(folder, "add", "inner")
    git(folder / "inner", "config", "filter.x.clean", str(program))
    file = folder / "inner" / "file"
    file.write_text("text\n"[::-1])
    os.utime(file, (1, 1))  # of the same size and another time: git has to read it


@pytest.mark.abuse(112)
@pytest.mark.parametrize("is_root", [True, False], ids=["of the workspace", "below it"])
async def test_a_pattern_does_not_cover_git_where_a_submodule_names_a_program(
    root: Path, *, is_root: bool
) -> None:
    program, workspace = root / "program", root / "workspace"
    program.write_text(f"#!/bin/sh\ntouch {root}/ran\n")
    program.chmod(0o755)
    folder = workspace if is_root else workspace / "project"
    folder.parent.mkdir(exist_ok=True)
    repository_with_submodule(folder, program)
    git(folder, "status")
    assert (root / "ran").exists(), "git does not look into submodules any more"
    rules = ExecRules(allowlist=("git status",), cwd=folder, root=workspace)
    decision = await check("git status", rules)
    assert (decision.decision, decision.rule) == (ToolEffect.ASK, "git-config")
    assert "submodules" in decision.reason


@pytest.mark.abuse(112)
async def test_a_pattern_does_not_cover_a_push_into_a_folder_with_hooks(root: Path) -> None:
    git(root, "init", "-q", "project")
    git(root, "init", "-q", "--bare", "other")
    hook_file = root / "other" / "hooks" / "post-receive"
    hook_file.write_text(f"#!/bin/sh\ntouch {root}/ran\n")
    hook_file.chmod(0o755)
    project = root / "project"
    git(
        project, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-mx"
    )
    rules = ExecRules(allowlist=("git push", "git push * *"), cwd=project, root=root)
    assert (await check("git push", rules)).decision is ToolEffect.ALLOW
    assert (await check("git push origin main", rules)).decision is ToolEffect.ALLOW
    git(project, "remote", "add", "origin", "../other")
    git(project, "push", "origin", "HEAD")
    assert (root / "ran").exists()
    assert (await check("git push", rules)).rule == "git-config"
    git(project, "remote", "remove", "origin")
    (project / "local").symlink_to("../other")
    for words in ("local main", "--repo=local main", f"file://{root}/other main"):
        assert (await check(f"git push {words}", rules)).decision is ToolEffect.ASK


def test_git_runs_no_watcher_and_takes_no_folder_for_a_repository(root: Path) -> None:
    """Both would run `program` outside, in the environment of an ordinary shell."""
    program = root / "program"
    program.write_text(f"#!/bin/sh\ntouch {root}/ran\n")
    program.chmod(0o755)
    git(root, "init", "-q", "watched")
    git(root / "watched", "config", "core.fsmonitor", str(program))
    git(root / "watched", "status")
    (root / "bare" / "objects").mkdir(parents=True)
    (root / "bare" / "refs").mkdir()
    (root / "bare" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "bare" / "config").write_text(f"[core]\nworktree = .\nfsmonitor = {program}\n")
    git(root / "bare", "status")
    assert not (root / "ran").exists()
    subprocess.run(
        ["/usr/bin/git", "status"],
        cwd=root / "watched",
        check=False,
        capture_output=True,
        timeout=60,
    )
    assert (root / "ran").exists()
