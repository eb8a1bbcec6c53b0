# Self-test of a sandbox: looks for the canaries that were placed outside. Prints a line for each check,
# and waits for a line at its end, so that its processes can be seen from outside.
# It needs a shell and the usual small programs alone; what it tries to write it opens without writing.

say() { echo "@$1 $2 $3"; }
no() {
  id=$1; shift
  if "$@" >/dev/null 2>&1; then say "$id" fail "allowed: $*"; else say "$id" ok; fi
}
yes() {
  id=$1; shift
  if "$@" >/dev/null 2>&1; then say "$id" ok; else say "$id" fail "refused: $*"; fi
}
append() { ( : >> "$1" ); }
field() {
  while read -r key value rest; do [ "$key" != "$1:" ] || echo "$value"; done < /proc/self/status
}
is() { [ "$2" = "$3" ] && say "$1" ok || say "$1" fail "$2 in place of $3"; }

say starts ok
no outside-file cat "$OUTSIDE/secret"
no outside-write append "$OUTSIDE/new"
no home ls /root/.
yes workspace-write append /workspace/made-inside
for name in $CLOSED; do no "closed-$name" append "/workspace/$name/x"; done
no system-write append /usr/canary
no etc-write append /etc/canary
no root-write append /canary
no sysctl append /proc/sys/kernel/core_pattern
no sysrq append /proc/sysrq-trigger
no host-passwords cat /etc/shadow
is capabilities "$(field CapEff)$(field CapBnd)" 00000000000000000000000000000000
is no-new-privileges "$(field NoNewPrivs)" 1
is seccomp "$(field Seccomp)" 2
no namespaces unshare --user true
no mounts mount -t tmpfs none /tmp
devices=$(while read -r name rest; do case $name in *:*) echo "${name%%:*}";; esac; done < /proc/net/dev)
is network "$devices" lo
is abstract-sockets "$(grep -c @ /proc/net/unix)" 0
is keyring "$(cat /proc/keys 2>/dev/null)" ""
set -- /proc/[0-9]*
[ $# -lt 12 ] && say processes ok || say processes fail "$# processes are visible"
names=$(env | while read -r line; do case ${line%%=*} in
  PATH|HOME|TMPDIR|LANG|PWD|OLDPWD|SHLVL|_|OUTSIDE|CLOSED|SOCKETS|HOSTNAME|SKERRY_COMMAND) ;; *=*|?*) echo "${line%%=*}" ;;
esac; done)
is environment "$names" ""
set -- /proc/self/fd/*
[ $# -le 4 ] && say descriptors ok || say descriptors fail "$*"
is core-files "$(ulimit -c)" 0
is open-files "$(ulimit -n)" 64
no tmp-size dd if=/dev/zero of=/tmp/fill bs=65536 count=64
rm -f /tmp/fill
no shm-size dd if=/dev/zero of=/dev/shm/fill bs=65536 count=64
no file-size dd if=/dev/zero of=/workspace/fill bs=1048576 count=16
rm -f /workspace/fill
for path in /dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/kmsg; do no disks head -c 1 "$path"; done
for path in $SOCKETS; do if [ -e "$path" ]; then say sockets fail "$path"; fi; done
say sockets ok
( sh -c 'sleep 300; :' "$0" & )
( i=0; while [ $i -lt 60 ]; do sleep 20 & i=$((i+1)); done ) 2>/dev/null
set -- /proc/[0-9]*
[ $# -le 44 ] && say process-limit ok || say process-limit fail "$# processes"
say done ok
read -r _
