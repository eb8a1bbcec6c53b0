"""Programs that run other programs or code: no pattern with `*` matches them."""

import re
from collections.abc import Sequence
from typing import Final

PRIVILEGED: Final = frozenset(
    [
        "doas",
        "machinectl",
        "pkexec",
        "run0",
        "runuser",
        "su",
        "sudo",
        "sudoedit",
        "sudo-rs",
        "su-rs",
    ]
)
"""Programs that run a command as another user: they always require approval."""
_SHELLS: Final = """
    sh ash bash dash rbash zsh ksh ksh93 mksh lksh pdksh oksh fish csh tcsh posh yash elvish nu
    xonsh pwsh powershell busybox toybox coreutils cmd cmd.exe command.com git-shell rsh eval exec
    source . builtin trap alias bind complete enable hash mapfile readarray read
"""
_LANGUAGES: Final = """
    python pypy perl perl5 ruby irb rake node nodejs deno bun bunx ts-node tsx esbuild php php-cgi
    phpdbg lua luajit luac java javac jshell jrunscript groovy scala kotlin kotlinc clojure clj R
    Rscript julia ghc ghci runghc runhaskell stack cabal ocaml erl escript elixir iex mix tclsh
    wish expect guile racket sbcl clisp ecl emacs emacsclient awk gawk mawk nawk original-awk sed
    gsed ed red ex m4 bc dc gnuplot octave matlab maxima gp sage ipython jupyter bpython swift
    dart go gofmt cargo rustc rustup tcc crystal nim zig raku osascript swipl prolog cscript
    wscript gs ghostscript tex latex pdftex pdflatex xetex xelatex lualatex luatex latexmk sqlite3
    sqlite psql mysql mariadb mongo mongosh redis-cli clickhouse duckdb
"""
_EDITORS: Final = """
    vi vim view vimdiff rvim rview gvim nvim neovim nano pico joe jed micro helix hx kak mg zile
    less more most lesspipe man info pager sensible-pager sensible-editor editor select-editor w3m
    lynx links elinks mutt mail mailx alpine
"""
"""Editors, pagers and mail programs, which have commands of their own."""
_STARTERS: Final = """
    find fd fdfind xargs parallel sem env-parallel watch entr inotifywait ssh scp sftp slogin
    autossh mosh sshpass ssh-agent rsync rclone telnet ftp tftp lftp ncftp nc ncat netcat socat
    openssl script scriptreplay screen tmux dtach abduco zellij unbuffer make gmake bmake cmake
    ctest ninja meson bazel bazelisk buck scons waf just task ant mvn gradle gradlew mvnw sbt lein
    tar bsdtar gtar star cpio rmt zip split install gcc g++ cc c++ clang clang++ ld gold lld npm
    npx pnpm pnpx yarn yarnpkg corepack nvm fnm volta nx turbo lerna grunt gulp webpack vite jest
    mocha vitest ava tap tsc eslint prettier pip pipx uv uvx poetry pipenv pdm hatch rye conda
    mamba micromamba virtualenv tox nox pytest py.test coverage mypy pylint pdb cython
    easy_install invoke fab gem bundle bundler rails rspec composer artisan dotnet msbuild nuget
    mono xbuild docker docker-compose podman podman-compose buildah nerdctl ctr crictl kubectl oc
    helm k9s minikube kind terraform tofu terragrunt packer vagrant ansible ansible-playbook salt
    puppet chef lxc lxc-attach incus nsenter unshare chroot bwrap firejail flatpak snap
    systemd-run systemd-nspawn systemctl at batch crontab cron anacron run-parts start-stop-daemon
    daemonize setpriv capsh runcon prlimit numactl cpulimit trickle torsocks torify proxychains
    proxychains4 faketime fakeroot fakechroot eatmydata catchsegv dbus-run-session dbus-launch
    xvfb-run xinit startx linux32 linux64 setarch i386 x86_64 uname26 flock lockfile chronic ifne
    pee gdb lldb strace ltrace perf valgrind rr bpftrace stap hyperfine multitime rlwrap tini
    dumb-init gosu su-exec catatonit supervisord s6-setuidgid chpst softlimit envdir setuidgid apt
    apt-get aptitude dpkg dnf yum rpm zypper pacman apk brew port nix nix-shell nix-env guix
    xdg-open open gio run-mailcap see pkcon dbus-send gdbus busctl logrotate debconf
    update-alternatives ip rpcgen hx ld.so ldd git-lfs gh-copilot code codium subl hg svn bzr
    fossil darcs p4
"""
"""Programs that start programs, or that load code by the name of a file or package."""
_RUNNERS: Final = frozenset(f"{_SHELLS} {_LANGUAGES} {_EDITORS} {_STARTERS}".split())
_MANY_NAMED: Final = frozenset({"busybox", "coreutils", "toybox"})
"""Programs that act as the program in whose name they are linked."""
_LOADER: Final = re.compile(r"ld-?[\w.-]*\.so(?:\.\d+)*")
_PLAIN_GIT_TEXT: Final = """
    add annotate apply blame branch cat-file check-attr check-ignore check-mailmap
    check-ref-format checkout cherry cherry-pick clean clone commit commit-graph count-objects
    describe diff diff-files diff-index diff-tree fetch for-each-ref format-patch fsck gc grep
    init log ls-files ls-remote ls-tree mailinfo merge merge-base merge-tree mv name-rev notes
    pack-refs prune pull push range-diff read-tree reflog remote reset restore rev-list rev-parse
    revert rm shortlog show show-branch show-ref sparse-checkout stash status stripspace switch
    symbolic-ref tag update-index update-ref var verify-commit verify-tag version whatchanged
    worktree write-tree
"""
_PLAIN_GIT: Final = frozenset(_PLAIN_GIT_TEXT.split())
"""Subcommands of git that are neither aliases nor run a program which their words name."""


def is_runner(argv: Sequence[str], *names: str) -> bool:
    """Returns whether a command may run other programs or code from its words or files.

    Args:
        argv: The command, without wrappers.
        names: Further names of its program, such as that of the file behind a link.
    """
    name = argv[0].rpartition("/")[2]
    if any(map(_is_listed, {name, *names} - (_MANY_NAMED - {name}))):
        return True
    if name == "git" or name.startswith("git-"):
        return name != "git" or len(argv) < 2 or argv[1] not in _PLAIN_GIT  # noqa: PLR2004 - the subcommand
    return False


def _is_listed(name: str) -> bool:
    if name in _RUNNERS or name.lower() in _RUNNERS or _LOADER.fullmatch(name):
        return True
    return _unversioned(name) in _RUNNERS or name.partition(".")[0] in _RUNNERS


def _unversioned(name: str) -> str:
    """Returns the name without a version: python for python3.11-dbg, gcc for gcc-12.

    The text after the first dot is a variant, such as vim.basic or nc.openbsd.
    """
    stem = name.removesuffix("-dbg").removesuffix("-config")
    if stem[-1:].isalpha() and stem[-2:-1].isdigit():
        stem = stem[:-1]
    return stem.rstrip("0123456789._-")
