"""Files outside: read, written and replaced by every spelling of their path."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

Context = dict[str, str]
Probe = Callable[[Context], "str | None"]


def spellings(context: Context) -> dict[str, str]:
    """Returns paths of the canary."""
    canary, workspace = context["canary"], context["workspace"]
    up = "../" * 24
    return {
        "absolute": canary,
        "double-slash": "//" + canary,
        "dots": "/." + canary,
        "up-from-workspace": f"{workspace}/{up}{canary}",
        "up-from-usr": f"/usr/{up}{canary}",
        "up-from-tmp": f"/tmp/{up}{canary}",
        "up-relative": f"{up}{canary.lstrip('/')}",
        "planted-link": f"{workspace}/link-to-canary",
        "planted-relative-link": f"{workspace}/relative-link-to-canary",
        "planted-folder-link": f"{workspace}/link-to-outside/secret",
        "planted-deep-link": f"{workspace}/folder/link-to-root/{canary}",
        "self-root": f"/proc/self/root{canary}",
        "self-root-twice": f"/proc/self/root/proc/self/root{canary}",
        "thread-root": f"/proc/thread-self/root{canary}",
        "first-root": f"/proc/1/root{canary}",
        "self-cwd": f"/proc/self/cwd/{up}{canary}",
        "first-cwd": f"/proc/1/cwd/{up}{canary}",
        "parent-root": f"/proc/{os.getppid()}/root{canary}",
        "old-root": f"/oldroot{canary}",
        "new-root": f"/newroot/{up}oldroot{canary}",
        "stage": f"/tmp/0/{up}{canary}",
        "descriptor-3": f"/proc/self/fd/3/{up}{canary}",
    }


def read(name: str, context: Context) -> str | None:
    text = Path(spellings(context)[name]).read_text(encoding="utf-8")
    return text if context["secret"] in text else None


def append(name: str, context: Context) -> str | None:
    path = spellings(context)[name]
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    return path


def created(folder: str, context: Context) -> str | None:
    """Makes a file beside the canary, by a path of its folder."""
    path = Path(folder.replace("OUTSIDE", context["outside"])) / "made"
    path.touch()
    try:
        return str(path) if path.stat().st_dev and Path(context["canary"]).exists() else None
    finally:
        path.unlink()


def roots() -> Iterator[Path]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            yield from (folder / "root", folder / "cwd")
            yield from (folder / "task" / folder.name / "root",)


def every_process(context: Context) -> str | None:
    for root in roots():
        try:
            text = (root / context["canary"].lstrip("/")).read_text(encoding="utf-8")
        except OSError:
            continue
        if context["secret"] in text:
            return str(root)
    return None


def every_descriptor(context: Context) -> str | None:
    """Looks for a directory among the descriptors, and goes up from there."""
    for name in os.listdir("/proc/self/fd"):
        try:
            parent = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=int(name))
        except OSError:
            continue
        for _ in range(30):
            parent = os.open("..", os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent)
        path = context["canary"].lstrip("/")
        try:
            with os.fdopen(os.open(path, os.O_RDONLY, dir_fd=parent), "rb") as file:
                return file.read().decode()
        except OSError:
            continue
    return None


def walk(context: Context) -> str | None:
    """Looks for the canary everywhere, by its name."""
    name = Path(context["canary"]).name
    for top in sorted(os.listdir("/")):
        if top in {"proc", "sys", "usr"}:
            continue
        for folder, _, names in os.walk("/" + top, onerror=lambda _: None):
            if name in names and "workspace" not in folder:
                text = Path(folder, name).read_text(encoding="utf-8", errors="replace")
                if context["secret"] in text:
                    return folder
    return None


def hard_link(context: Context) -> str | None:
    target = Path(context["workspace"], "hard")
    os.link(context["canary"], target)
    return target.read_text(encoding="utf-8")


def renamed(context: Context) -> str | None:
    """Moves a file of the workspace out."""
    made = Path(context["workspace"], "to-move")
    made.touch()
    there = Path(context["outside"], "moved")
    made.rename(there)
    there.unlink()
    return str(there)


def writes(path: str, context: Context) -> str | None:
    """Opens a file of the system for writing; nothing is written."""
    del context
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    return path


def makes(path: str, context: Context) -> str | None:
    """Makes a file where none belongs; removes it again."""
    path = path.replace("WORKSPACE", context["workspace"])
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    os.unlink(path)
    return path


def holds(path: str, context: Context) -> str | None:
    """Reads a file that tells of the machine."""
    del context
    text = Path(path).read_bytes()[:200]
    return repr(text) if text else None


def swapped(context: Context) -> str | None:
    """Puts a link in the place of a closed folder of the workspace."""
    hooks = Path(context["workspace"], "hooks")
    hooks.rename(hooks.with_name("hooks-away"))
    hooks.symlink_to("/tmp")
    return str(hooks)


def removed(name: str, context: Context) -> str | None:
    os.rmdir(Path(context["workspace"], name))
    return name


def linked_in(context: Context) -> str | None:
    """Gives a file of the workspace a second name in a closed folder."""
    made = Path(context["workspace"], "plain")
    made.touch()
    os.link(made, Path(context["workspace"], "hooks", "HOOK.md"))
    return "hooks/HOOK.md"


def moved_in(context: Context) -> str | None:
    """Moves a folder that was prepared over a closed one."""
    made = Path(context["workspace"], "prepared")
    made.mkdir(exist_ok=True)
    (made / "HOOK.md").touch()
    made.rename(Path(context["workspace"], "skills"))
    return "skills"


PROBES: dict[str, Probe] = {}
for _name in spellings({"canary": "/c", "workspace": "/w"}):
    PROBES[f"read-{_name}"] = partial(read, _name)
for _name in ("absolute", "planted-link", "self-root", "first-root", "up-from-workspace"):
    PROBES[f"write-{_name}"] = partial(append, _name)
for _label, _folder in {
    "beside-canary": "OUTSIDE",
    "beside-canary-by-root": "/proc/self/root/OUTSIDE",
}.items():
    PROBES[f"make-{_label}"] = partial(created, _folder)
PROBES |= {
    "read-every-process": every_process,
    "read-every-descriptor": every_descriptor,
    "read-walk": walk,
    "hard-link-out": hard_link,
    "move-out": renamed,
    "closed-swap-for-link": swapped,
    "closed-remove-hooks": partial(removed, "hooks"),
    "closed-remove-missing": partial(removed, "skills"),
    "closed-second-name": linked_in,
    "closed-move-over": moved_in,
}
CLOSED = ("hooks", "plugins", "skills", ".git", ".skerry", ".openclaw", "project/.git", "memory")
for _name in CLOSED:
    PROBES[f"closed-{_name.replace('/', '-')}"] = partial(makes, f"WORKSPACE/{_name}/made")
for _name in ("MEMORY.md", "AGENTS.md", "HEARTBEAT.md"):
    PROBES[f"closed-{_name}"] = partial(makes, f"WORKSPACE/{_name}")
SYSTEM = ("/canary", "/usr/canary", "/usr/bin/canary", "/etc/canary", "/lib/canary", "/proc/canary")
for _name in SYSTEM:
    PROBES[f"system{_name.replace('/', '-')}"] = partial(makes, _name)
SETTINGS = (
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/hotplug",
    "/proc/sys/vm/panic_on_oom",
    "/proc/sys/fs/binfmt_misc/register",
    "/proc/sysrq-trigger",
    "/sys/kernel/uevent_helper",
    "/sys/power/state",
    "/sys/fs/cgroup/memory/release_agent",
    "/etc/passwd",
    "/etc/ld.so.cache",
    "/usr/bin/env",
)
for _name in SETTINGS:
    PROBES[f"setting{_name.replace('/', '-')}"] = partial(writes, _name)
TELLING = (
    "/etc/shadow",
    "/etc/machine-id",
    "/proc/kcore",
    "/proc/keys",
    "/proc/key-users",
    "/proc/timer_list",
    "/proc/1/mem",
    "/sys/class/dmi/id/product_name",
    "/dev/mem",
    "/dev/port",
    "/dev/kmsg",
    "/dev/vda",
    "/dev/sda",
    "/dev/nvme0n1",
    "/dev/loop-control",
    "/dev/kvm",
    "/dev/fuse",
    "/dev/net/tun",
)
for _name in TELLING:
    PROBES[f"tells{_name.replace('/', '-')}"] = partial(holds, _name)
