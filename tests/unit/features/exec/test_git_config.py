"""Commands of git in repositories that a model may have made."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from skerry.features.exec.check import Rules, check
from skerry.features.exec.gateway_host import environment
from skerry.features.exec.git_config import MAX_BYTES, problem
from skerry.policy.effect import Effect

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


def bare(git_folder: Path) -> None:
    for name in ("HEAD", "objects", "refs"):
        (git_folder.parent / name).mkdir()


@pytest.mark.parametrize(
    "make",
    [hook, hooks_elsewhere, pointer, link, common, worktree, pipe, linked_config, none, bare],
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
    rules = Rules(allowlist=("git status", "ls *"), cwd=project, root=root)
    assert (await check("git status", rules)).decision is Effect.ALLOW
    (root / "project" / ".git" / "config").write_text("[core]\nfsmonitor = touch x\n")
    for command in ("git status", "ls && git status", "nice git status"):
        decision = await check(command, rules)
        assert (decision.decision, decision.rule) == (Effect.ASK, "git-config")
        assert decision.patterns == ()
        assert "core.fsmonitor" in decision.reason
    assert (await check("ls", rules)).decision is Effect.ALLOW
    off = Rules(ask="off", allowlist=("git status",), cwd=project, root=root)
    assert (await check("git status", off)).decision is Effect.DENY


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
