"""The parts of the system and of the home folder that programs need: a small /etc, toolchains, caches."""

import grp
import os
import pwd
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/gnu")
_FORMAT = 3  # what write_etc makes; another number makes it anew
_COPY_BYTES_MAX = 4 * 1024 * 1024
_COPIES_MAX = 4_000
_CREDENTIALS = re.compile(rb"_auth|_password|token|://[^/\s]*@", re.IGNORECASE)
# fmt: off
_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts",
    "gitconfig", "host.conf", "hosts", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d",
    "locale.alias", "locale.conf", "localtime", "login.defs", "lsb-release", "magic", "mime.types",
    "nsswitch.conf", "os-release", "perl", "pki/ca-trust", "pki/tls", "protocols", "redhat-release", "rpc",
    "services", "shells", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone", "xml",
)
_ETC_BEGINNINGS = ("java", "python", "maven", "php", "R", "ImageMagick", "texmf", "sgml")
_ETC_IF_PLAIN = ("npmrc", "pip.conf", "wgetrc")
# What programs are installed in below a home folder. Only what holds programs is listed: `.cargo` as a whole
# holds the key of a registry, `.config` those of everything else.
_TOOLCHAINS = (
    ".pyenv", ".rbenv", ".nodenv", ".goenv", ".jenv", ".nvm", ".fnm", ".volta", ".asdf", ".sdkman/candidates",
    ".rustup/toolchains", ".rustup/settings.toml", ".cargo/bin", ".deno/bin", ".bun/bin", ".dotnet", ".ghcup",
    ".opam", ".juliaup", ".local/bin", ".local/lib", ".local/share/uv", ".local/share/pipx", ".local/pipx",
    ".local/share/mise", ".local/share/fnm", ".local/share/pnpm", "go/bin", "bin", "miniconda3", "miniforge3",
    "mambaforge", "anaconda3", ".linuxbrew", ".nix-profile",
)
_CACHES = (
    ".cache/pip", ".cache/uv", ".cache/yarn", ".cache/go-build", ".cache/pnpm", ".cache/pypoetry/cache",
    ".npm", ".cargo/registry", ".cargo/git", "go/pkg/mod", ".m2/repository", ".gradle/caches",
    ".bun/install/cache", ".local/share/pnpm/store", ".nuget/packages",
)
# fmt: on
_INSTALLED = ("VIRTUAL_ENV", "CONDA_PREFIX", "JAVA_HOME", "GOROOT")
_OF_A_PREFIX = frozenset(("bin", "sbin", "shims"))
_DEPTH_MIN = 2  # a prefix right below / could be anything


def toolchains(home: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The folders outside the system that programs on the path are installed in; blocks."""
    places = [f"{home}/{name}" for name in _TOOLCHAINS]
    places += [environment[name] for name in _INSTALLED if environment.get(name, "").startswith("/")]
    places += _on_path(home, environment.get("PATH", ""))
    return tuple(_existing(places))


def caches(home: str) -> tuple[str, ...]:
    """The caches of package managers in the home folder; blocks."""
    return tuple(_existing(f"{home}/{name}" for name in _CACHES))


def is_below(path: str, folder: str) -> bool:
    """Whether a path is the folder or in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_in(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders or in one."""
    return any(is_below(path, folder) for folder in folders)


def outermost(paths: set[str]) -> set[str]:
    """The paths that aren't in one of the others."""
    return {path for path in paths if not is_in(path, paths - {path})}


def _on_path(home: str, path: str) -> Iterator[str]:
    for place in path.split(":"):
        if not place.startswith("/") or is_below(home, place):
            continue
        prefix, _, name = place.rstrip("/").rpartition("/")
        # Below the home folder only what is listed is known to hold nothing but programs.
        is_prefix = name in _OF_A_PREFIX and prefix.count("/") >= _DEPTH_MIN and not is_below(prefix, home)
        yield prefix if is_prefix and not is_below(home, prefix) else place


def _existing(places: "list[str] | Iterator[str]") -> Iterator[str]:
    seen: list[str] = list(SYSTEM_FOLDERS)
    for place in places:
        real = os.path.realpath(place)
        if not os.path.exists(real) or real == "/" or is_in(real, seen):  # noqa: PTH110
            continue
        seen.append(real)
        yield real


def etc_paths() -> tuple[str, ...]:
    """The same parts of the real /etc, for where no other can be mounted; blocks."""
    plain = (name for name in _ETC_IF_PLAIN if _is_plain(name))
    return tuple(f"/etc/{name}" for name in (*_ETC, *_matching(), *plain, "passwd", "group"))


def _is_plain(name: str) -> bool:
    try:
        return not _CREDENTIALS.search(Path("/etc", name).read_bytes()[:_COPY_BYTES_MAX])
    except OSError:
        return False


def write_etc(folder: Path, *, git_config: str = "") -> None:
    """Make the /etc of the sandbox: what programs need, without passwords, keys and the names of users.

    If the one that is there was made from the same files, it stays. Blocks.
    """
    names = (*_ETC, *_matching(), *filter(_is_plain, _ETC_IF_PLAIN))
    stamp, made_from = folder.with_name("etc.stamp"), f"{_stamp(names)}\n{git_config}"
    with suppress(OSError):
        if stamp.read_text() == made_from:
            return
    stamp.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o755, parents=True)
    copied = [0]
    for name in names:
        _copy(Path("/etc", name), folder / name, copied)
    with (folder / "gitconfig").open("a", encoding="utf-8") as file:
        file.write(f"\n{git_config}")
    (folder / "resolv.conf").write_text("")  # what a network brings is mounted here
    (folder / "passwd").write_text(_passwd())
    (folder / "group").write_text(_group())
    stamp.write_text(made_from)


def _stamp(names: tuple[str, ...]) -> str:
    """Changes when one of the files does, or a folder gets or loses one."""
    lines = [f"{_FORMAT} {os.getuid()} {os.getgid()}"]
    for name in names:
        with suppress(OSError):
            lines.append(f"{name} {os.stat(f'/etc/{name}').st_mtime_ns}")  # noqa: PTH116 - a text, not a path
    return "\n".join(lines)


def _matching() -> Iterator[str]:
    with suppress(OSError):
        yield from (name for name in os.listdir("/etc") if name.startswith(_ETC_BEGINNINGS))  # noqa: PTH208


def _copy(source: Path, target: Path, copied: list[int]) -> None:
    """Copy a file, a link or a folder; what can't be read is left out, as it would be inside."""
    copied[0] += 1
    if copied[0] > _COPIES_MAX:
        return
    with suppress(OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        # A link to what is mounted as it is stays one; what it leads to elsewhere is copied.
        leads_to = os.path.realpath(source)
        if source.is_symlink() and is_below(leads_to, "/usr") and os.path.exists(leads_to):  # noqa: PTH110
            target.symlink_to(leads_to)
        elif source.is_dir():
            target.mkdir(exist_ok=True)
            for inner in sorted(source.iterdir()):
                if inner.name != "private":
                    _copy(inner, target / inner.name, copied)
        elif source.is_file() and source.stat().st_size <= _COPY_BYTES_MAX:
            shutil.copyfile(source, target)


def _passwd() -> str:
    lines = {"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"}
    lines.add("root:x:0:0:root:/root:/bin/bash")
    with suppress(KeyError):
        own = pwd.getpwuid(os.getuid())
        lines.add(f"{own.pw_name}:x:{own.pw_uid}:{own.pw_gid}::{own.pw_dir}:/bin/bash")
    return "".join(f"{line}\n" for line in _one_per_name(lines))


def _group() -> str:
    lines = {"root:x:0:", "nogroup:x:65534:"}
    with suppress(KeyError):
        lines.add(f"{grp.getgrgid(os.getgid()).gr_name}:x:{os.getgid()}:")
    return "".join(f"{line}\n" for line in _one_per_name(lines))


def _one_per_name(lines: set[str]) -> list[str]:
    return sorted({line.partition(":")[0]: line for line in sorted(lines, key=len)}.values())
