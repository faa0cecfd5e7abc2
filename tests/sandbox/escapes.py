"""Ways out of a sandbox, as scripts: each ends with 0 if it got out, and with anything else if it didn't.

`$OUT` is a folder outside, `$KEY` a file of the home folder, `$WORK` the workspace with secret and protected
files, `$PID` a process outside, `$PORT` and `$UDP` ports that listen there, `$SOCKET` a Unix socket outside,
`$INNER` one that a program outside opened in the workspace, and `$ABSTRACT` the name of an abstract one. A
secret always holds the word `treasure`.
"""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

_X86 = platform.machine() == "x86_64"


@dataclass(frozen=True, slots=True)
class Escape:
    """One way out; `works_open` is whether it gets out where there is no sandbox."""

    name: str
    script: str
    works_open: bool = True
    # Landlock can't mask or protect a file in a tree that it grants, so these get out there.
    landlock: Literal["holds", "can't"] = "holds"


def _call(x86: int, aarch: int, *arguments: object) -> str:
    """A system call by its number; ends with 0 unless the call was refused."""
    words = ", ".join(map(str, (x86 if _X86 else aarch, *arguments)))
    return f"perl -e '$! = 0; my $got = syscall({words}); exit($got == -1 ? 1 : 0)'"


def _comes(name: str) -> str:
    """Whether a file comes to be outside, made by another process; it is looked for $LOOKS times."""
    looking = f'for _ in $(seq $LOOKS); do [ -e "$OUT/{name}" ] && break; sleep 0.1; done'
    return f'{{ {looking}; [ -e "$OUT/{name}" ]; }}'


def _perl_connect(family: str, address: str, kind: str = "SOCK_STREAM") -> str:
    return (
        f"perl -MSocket -e 'socket(my $s, {family}, {kind}, 0) or exit 1; "
        f'connect($s, {address}) or exit 1; syswrite($s, "x"); exit 0\''
    )


_FILES = {
    "a write outside": 'echo x > "$OUT/new"',
    "an append outside": 'echo x >> "$OUT/old"',
    "a removal outside": 'rm "$OUT/removable"',
    "a rename outside": 'mv "$OUT/movable" "$OUT/moved"',
    "a file cut off outside": 'truncate -s 0 "$OUT/cut"',
    "a folder made outside": 'mkdir "$OUT/folder"',
    "a hard link to a file outside": 'ln "$OUT/old" "$WORK/hard" && grep -q treasure "$WORK/hard"',
    "a hard link out of the workspace": 'echo x > "$WORK/mine" && ln "$WORK/mine" "$OUT/hard"',
    "a link that leads outside": 'ln -s "$OUT" "$WORK/link" && echo x > "$WORK/link/by-link"',
    "a link that leads to a key": 'ln -s "$KEY" "$WORK/key-link" && grep -q treasure "$WORK/key-link"',
    "a link that changes while it is used": (
        'mkdir -p "$WORK/race"; (for i in 1 2 3 4 5 6 7 8; do ln -sfn "$OUT" "$WORK/race/l"; '
        'ln -sfn "$WORK" "$WORK/race/l"; done) & '
        'for i in 1 2 3 4 5 6 7 8; do echo x > "$WORK/race/l/raced"; done; wait; [ -e "$OUT/raced" ]'
    ),
    "an archive with a path upward": (
        'cd "$WORK" && mkdir -p a && echo x > a/up && '
        'tar cPf up.tar --transform "s,a/up,$OUT/unpacked," a/up '
        '&& tar xPf up.tar && [ -e "$OUT/unpacked" ]'
    ),
    "an archive with a link": (
        'cd "$WORK" && mkdir -p b && ln -sfn "$OUT" b/l && tar cf l.tar b/l && rm b/l && tar xf l.tar '
        "&& echo x > b/l/through"
    ),
    "a copy of the key": 'cp "$KEY" "$WORK/copy" && grep -q treasure "$WORK/copy"',
    "a look at the home folder": 'grep -rq treasure "$(dirname "$KEY")"',
    "the home folder by its variable": 'grep -rqs treasure "$HOME"',
    "a file of the system": "f=/usr/share/.holdfast-escape; echo x > $f && rm $f",
    "a program of the system": "f=/usr/local/bin/.holdfast-escape; echo x > $f && rm $f",
    "the passwords": "head -c1 /etc/shadow | grep -q .",
    "a service that starts later": "f=/etc/cron.d/holdfast-escape; echo > $f && rm $f",
    "a path through /proc/self/root": 'grep -q treasure "/proc/self/root$KEY"',
    "a path through a descriptor": 'exec 9< "$OUT"; echo x > /proc/self/fd/9/by-descriptor',
    "a path with many dots": 'cd "$WORK" && grep -q treasure "../../../../../../../../../..$KEY"',
}
_PERMISSIONS = {
    "a mode changed outside": 'chmod 777 "$OUT/cut"',
    "a time changed outside": 'touch -d 2001-01-01 "$OUT/cut"',
    "an attribute of a file outside": (
        """perl -e 'my ($f, $n, $v) = ($ENV{OUT} . "/old", "user.x", "y"); """
        f"exit(syscall({188 if _X86 else 5}, $f, $n, $v, 1, 0) == 0 ? 0 : 1)'"
    ),
}
_SECRETS = {
    "a secret of the workspace": 'grep -q treasure "$WORK/.env"',
    "a recursive search": 'grep -rqs treasure "$WORK" --include=.env',
    "a secret folder": 'grep -rqs treasure "$WORK/.ssh"',
    "a secret in an archive": 'cd "$WORK" && tar cf - .env 2>/dev/null | tar xOf - | grep -q treasure',
    "a secret by a hard link": 'ln "$WORK/.env" "$WORK/env2" && grep -q treasure "$WORK/env2"',
    "a secret by git": (
        'cd "$WORK" && git -c safe.directory="*" hash-object -w .env >/dev/null && grep -q treasure .env'
    ),
    "a secret by another name": 'mv "$WORK/.env" "$WORK/plain" && grep -q treasure "$WORK/plain"',
    "a secret folder that is moved": 'mv "$WORK/.ssh" "$WORK/s" && grep -rq treasure "$WORK/s"',
}
_PROTECTED = {
    "a permission of a protected file": 'chmod 777 "$WORK/AGENTS.md"',
    "instructions for agents": 'echo x >> "$WORK/AGENTS.md"',
    "instructions that are replaced": 'echo x > "$WORK/n" && mv -f "$WORK/n" "$WORK/AGENTS.md"',
    "instructions that are removed": 'rm -f "$WORK/AGENTS.md"; [ ! -e "$WORK/AGENTS.md" ]',
    "a git hook": 'echo x > "$WORK/.git/hooks/pre-commit"',
    "a git hook by git": 'git -C "$WORK" -c safe.directory="*" config core.fsmonitor ./x',
    "the git configuration": 'echo x >> "$WORK/.git/config"',
    "an editor's tasks": 'echo x > "$WORK/.vscode/tasks.json"',
    "a workflow": 'echo x > "$WORK/.github/workflows/ci.yml"',
    "a makefile by make": (
        'cd "$WORK" && printf "all:\\n\\techo x >> Makefile\\n" > own.mk2 && make -sf own.mk2'
    ),
}
_PROCESSES = {
    "the environment of a process": 'tr "\\0" "\\n" < /proc/$PID/environ | grep -q treasure',
    "the memory of a process": "cat /proc/$PID/maps | grep -q .",
    "the files of a process": "readlink /proc/$PID/fd/0 | grep -q .",
    "the folder of a process": "ls /proc/$PID/cwd/ | grep -q .",
    "the root of a process": 'grep -q treasure "/proc/$PID/root$KEY"',
    "a signal to a process": "kill -0 $PID",
    "the priority of a process": "renice -n 19 -p $PID",
    "the processor of a process": "taskset -p 1 $PID",
    "the limits of a process": "prlimit --pid $PID --nofile=64:64",
    "a signal to the parent": "kill -0 $SERVER",
    "every environment in /proc": 'cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n" | grep -q treasure',
    "tracing a process": _call(101, 117, "16, $ENV{PID}+0", 0, 0),
    "reading a process's memory": _call(310, 270, "$ENV{PID}+0", 0, 0, 0, 0, 0),
    "opening a process's descriptor": (
        "perl -e 'my $p = syscall(434, $ENV{PID}+0, 0); exit 1 if $p < 0; "
        "my $f = syscall(438, $p, 0, 0); exit($f < 0 ? 1 : 0)'"
    ),
}
_LEAVING = {
    "a session of its own": 'setsid sh -c \'echo x > "$OUT/setsid"\'; [ -e "$OUT/setsid" ]',
    "a double fork": "(setsid sh -c '(echo x > \"$OUT/forked\") &' &) ; " + _comes("forked"),
    "a program that runs as its owner": 'cp /bin/true "$WORK/own" && chmod 4755 "$WORK/own"',
    "a new program that runs as its owner": (
        """perl -e 'umask 0; my $f = $ENV{WORK} . "/made"; """
        f"""exit(syscall({257 if _X86 else 56}, -100, $f, 0101, 04755) >= 0 && -u $f ? 0 : 1)'"""
    ),
    "an empty environment": 'env -i OUT="$OUT" sh -c \'echo x > "$OUT/env"\'',
    "a command that a daemon runs": 'at now <<< "touch $OUT/at" && ' + _comes("at"),
    "a systemd service": "systemd-run --user --wait true",
    "a container": "docker version",
    "another user": "sudo -n true",
}
_KERNEL = {
    "a mount": "mount -t tmpfs tmpfs /mnt && umount /mnt",
    "a bind mount": 'mkdir -p "$WORK/m" && mount --bind / "$WORK/m" && umount "$WORK/m"',
    "a protected file uncovered": 'umount "$WORK/AGENTS.md"',
    "a writable remount": "mount -o remount,rw /usr",
    "a new user namespace": "unshare -Ur true",
    "a new mount namespace": "unshare -m true",
    "a namespace by clone": _call(56, 220, "0x10000000|17", 0, 0, 0, 0),
    "a namespace by clone3": _call(435, 435, 'pack("Q8", 0x10000000, 0, 0, 0, 17, 0, 0, 0)', 64),
    "the namespace of a process": "nsenter -t $PID -m -n true",
    "a root of its own": 'chroot "$WORK" /bin/true',
    "a device file": 'mknod "$WORK/disk" b 259 0',
    "the kernel's keys": _call(250, 219, 0, -3, 0),
    "a program in the kernel": _call(321, 280, 0, 0, 0),
    "the performance counters": _call(298, 241, 0, 0, -1, -1, 0),
    "an io_uring": _call(425, 425, 1, 'my $b = "\\0" x 120'),
    "the file handle of a path": (
        'perl -e \'my $h = pack("Ii", 128, 0) . "\\0" x 128; my $m = pack("i", 0); '
        f"exit(syscall({303 if _X86 else 264}, -100, $ENV{{WORK}}, $h, $m, 0) == -1 ? 1 : 0)'"
    ),
    "a crash handler": "echo '|/x' > /proc/sys/kernel/core_pattern",
    "a kernel setting": "echo 1 > /proc/sys/kernel/sysrq",
    "the magic key": "echo h > /proc/sysrq-trigger",
    "a module": _call(175, 105, 0, 0, 0),
    "the clock": _call(227, 112, 0, 'pack("qq", 1, 1)'),
    "the name of the machine": "hostname holdfast-escape",
    "a set-user-id program": "grep -qi '^NoNewPrivs:.*0' /proc/self/status",
}
_NETWORK = {
    "a connection": 'exec 5<>"/dev/tcp/127.0.0.1/$PORT"',
    "a connection by name": 'exec 5<>"/dev/tcp/localhost/$PORT"',
    "a connection by perl": _perl_connect("PF_INET", 'pack_sockaddr_in($ENV{PORT}, inet_aton("127.0.0.1"))'),
    "a datagram": 'echo x > "/dev/udp/127.0.0.1/$UDP" && ' + _comes("datagram"),
    "a name by DNS": "getent ahosts example.com",
    "a raw socket": "perl -MSocket -e 'socket(my $s, PF_INET, SOCK_RAW, 1) or exit 1; "
    'send($s, "\\x08\\0\\xf7\\xff\\0\\0\\0\\0", 0, pack_sockaddr_in(0, inet_aton("127.0.0.1"))) or exit 1; '
    "my $r; vec($r, fileno($s), 1) = 1; exit(select($r, undef, undef, 0.2) ? 0 : 1)'",
    "a packet socket": "perl -MSocket -e 'socket(my $s, 17, SOCK_RAW, 0) or exit 1'",
    "a socket to the host of a virtual machine": (
        "perl -MSocket -e 'socket(my $s, 40, SOCK_STREAM, 0) or exit 1'"
    ),
    "a Unix socket in the workspace": _perl_connect("PF_UNIX", "pack_sockaddr_un($ENV{INNER})"),
    "a Unix socket outside": _perl_connect("PF_UNIX", "pack_sockaddr_un($ENV{SOCKET})"),
    "an abstract Unix socket": _perl_connect("PF_UNIX", 'pack_sockaddr_un("\\0$ENV{ABSTRACT}")'),
    "a datagram pair that is sent elsewhere": (
        "perl -MSocket -e 'socketpair(my $a, my $b, PF_UNIX, SOCK_DGRAM, 0) or exit 1; "
        'send($a, "x", 0, pack_sockaddr_un("\\0$ENV{ABSTRACT}-datagrams")) or exit 1\''
    ),
    "a proxy in the environment": 'env | grep -qi "_proxy="',
    "a key in the environment": "env | grep -q treasure",
    "a key in the first process": 'tr "\\0" "\\n" < /proc/1/environ | grep -q treasure',
    "characters typed into a terminal": (
        'perl -e \'open(my $t, "+<", "/dev/ptmx") or exit 1; my $c = "x"; ioctl($t, 0x5412, $c) or exit 1\''
    ),
    "a package's install script": (
        'mkdir -p "$WORK/pkg" && cd "$WORK/pkg" && '
        'printf \'{"name":"x","version":"1.0.0","scripts":{"install":"echo x > %s/npm"}}\' "$OUT" '
        '> package.json && npm run --silent install && [ -e "$OUT/npm" ]'
    ),
    "a makefile's command": (
        'cd "$WORK" && printf \'all:\\n\\techo x > "$(OUT)/make"\\n\' > evil.mk2 && '
        'OUT="$OUT" make -sf evil.mk2'
    ),
    "a git alias": 'cd "$WORK" && git -c alias.x=\'!echo x > "$OUT/alias"\' x && [ -e "$OUT/alias" ]',
    "a git pager": (
        'cd "$WORK" && GIT_PAGER=\'sh -c "echo x > $OUT/pager"\' git -p --version; [ -e "$OUT/pager" ]'
    ),
    "a python start file": "cd \"$WORK\" && echo \"open('$OUT/py','w')\" > e.py && perl -e 1 && python3 e.py",
}
# What needs something that this machine may not have, or rights, or would harm it, is not tried in the open.
_NOT_TRIED_OPEN = frozenset(
    (
        *_KERNEL,
        *("a file of the system", "a program of the system", "a service that starts later", "the passwords"),
        *("a command that a daemon runs", "a systemd service", "a container", "another user"),
        *("a name by DNS", "a raw socket", "a packet socket", "a socket to the host of a virtual machine"),
        *("characters typed into a terminal", "a package's install script", "a python start file"),
        *(
            "a proxy in the environment",
            "a key in the environment",
            "a key in the first process",
            "tracing a process",
        ),
        *("opening a process's descriptor", "the memory of a process"),
        *("reading a process's memory", "a signal to the parent", "the home folder by its variable"),
        *("a link that changes while it is used", "a git pager", "the root of a process"),
    )
)
_GROUPS: Mapping[str, Literal["holds", "can't"]] = {
    "secrets": "can't",
    "protected": "can't",
    "permissions": "can't",
}


def _all() -> tuple[Escape, ...]:
    groups = {
        "files": _FILES,
        "permissions": _PERMISSIONS,
        "processes": _PROCESSES,
        "leaving": _LEAVING,
        "kernel": _KERNEL,
        "network": _NETWORK,
        "protected": _PROTECTED,
        "secrets": _SECRETS,
    }
    return tuple(
        Escape(
            name,
            script,
            works_open=name not in _NOT_TRIED_OPEN,
            landlock=_GROUPS.get(group, "holds"),
        )
        for group, scripts in groups.items()
        for name, script in scripts.items()
    )


ESCAPES = _all()
