"""Where a file may be put, and putting it there whole or not at all: the only place that opens outputs.

A model, a picture or a report is a file: it never takes the place of a device, a pipe, a socket, a folder,
one of the inputs, a read-only file, or a file that somebody else has made. Rows of results may also go
through a pipe or a terminal, which is written to and never replaced.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

PathLike = str | os.PathLike[str]
STANDARD = "-"  # standard input or output
REFUSED = "cannot write to"
LOOKED_AT = 1 << 16  # bytes at either end of a file that show who made it


def refused(code: int, path: PathLike, why: str) -> OSError:
    """The error of an output that cannot be written; its class follows from the code."""
    return OSError(code, f"{REFUSED} {os.fspath(path)}: {why}")


def is_standard(path: PathLike | None) -> bool:
    return path is None or path == STANDARD


def node(path: PathLike) -> str:
    """What stands at a path that is not a file: "a folder", "a pipe", ...; "" for a file or nothing."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return ""
    if stat.S_ISREG(mode):
        return ""
    names = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return names.get(stat.S_IFMT(mode), "a device")


def is_stream(path: PathLike) -> bool:
    """Whether bytes can be written through: a pipe, or a device that takes letters, not blocks."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def unreadable(path: PathLike) -> str:
    """Why what stands at a path is not read: opening it could wait for ever, or it never ends.

    A pipe that a shell has opened, as in `<(command)`, and standard input have another end.
    """
    what = node(path)
    if what == "a pipe" and os.path.exists(os.path.realpath(path)):
        return f'it is a pipe with a name, which is not waited for; redirect it: - < "{path}"'
    if what in ("a folder", "a socket") or (what == "a device" and not same_file(path, STANDARD)):
        return f"it is {what}, not a file"
    return ""


def same_file(path: PathLike, other: PathLike) -> bool:
    """Whether both are one file, by whatever names; "-" is standard input."""
    try:
        there = os.fstat(sys.stdin.fileno()) if other == STANDARD else os.stat(other)
        return os.path.samestat(os.stat(path), there)
    except (OSError, ValueError, AttributeError):  # not there, or a standard input that is no file
        return os.path.realpath(path) == os.path.realpath(other)


def check_output(
    path: PathLike,
    *,
    inputs: Iterable[PathLike | None] = (),
    stream: bool = False,
    foreign: Callable[[Path], str] | None = None,
    hint: str = "",
) -> None:
    """Raise an OSError where an output could not, or must not, be written: before any work.

    With `stream`, pipes and the like may be written through. `foreign` says of a file that is there
    why it is not to be replaced, or ""; `hint` what to do then.
    """
    for given in inputs:
        if given is not None and same_file(path, given):
            raise refused(errno.EINVAL, path, "it is one of the inputs; name another file")
    if stream and is_stream(path):
        return
    what = node(path)
    if what:
        code = errno.EISDIR if what == "a folder" else errno.EINVAL
        raise refused(code, path, f"it is {what}, not a file")
    target = Path(os.path.realpath(path))
    if not os.path.isdir(target.parent):
        raise refused(errno.ENOENT, path, f"there is no folder {target.parent}")
    if not os.access(target.parent, os.W_OK):
        raise refused(errno.EACCES, path, f"no permission to write into {target.parent}")
    if not target.exists():
        return
    # root may write to any file, but one that nobody may write to is meant to stay
    if not target.stat().st_mode & 0o222 or not os.access(target, os.W_OK):
        raise refused(errno.EACCES, path, "it is read-only; name another file")
    if foreign is not None and target.stat().st_size:
        why = foreign(target)
        if why:
            raise refused(errno.EEXIST, path, f"{why}; {hint or 'name another file'}")


def unlike(*marks: bytes, what: str) -> Callable[[Path], str]:
    """`foreign` for files that have one of these marks near their beginning or end."""

    def foreign(path: Path) -> str:
        with open(path, "rb") as file:
            found = file.read(LOOKED_AT)
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOOKED_AT))
            found += file.read(LOOKED_AT)
        return "" if any(mark in found for mark in marks) else f"what is there is not {what}"

    return foreign


PICTURE = unlike(b"atplotlib", what="a picture drawn before")


def replace_file(
    path: PathLike,
    parts: Iterable[Any],
    *,
    check: Callable[[Path], object] | None = None,
    foreign: Callable[[Path], str] | None = None,
    hint: str = "",
) -> None:
    """Put a file of these bytes at `path`, durably and whole, or leave everything as it was.

    `check` reads the finished file before it takes its place; what it raises, this raises.
    """
    check_output(path, foreign=foreign, hint=hint)
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".metricforest-{secrets.token_hex(8)}.tmp")
    try:
        with open(beside, "xb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        if check is not None:
            check(beside)
        if target.exists():
            shutil.copymode(target, beside)
        check_output(path)  # the work may have taken long
        os.replace(beside, target)
    except BaseException as error:  # an interrupt as well
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError) and not str(error.strerror).startswith(REFUSED):
            why = f"{error.strerror}; what was there before is unchanged"
            raise refused(error.errno or errno.EIO, path, why) from error
        raise
    if os.name == "posix":
        with suppress(OSError):  # the rename is done; not every file system can be asked to keep it
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def write_through(path: PathLike | None, parts: Iterable[bytes]) -> None:
    """Bytes to standard output, a pipe or a terminal as they come; anything else is a whole file."""
    if is_standard(path):
        for part in parts:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        return
    assert path is not None
    if not is_stream(path):
        replace_file(path, parts)
        return
    try:
        with open(path, "wb") as file:
            for part in parts:
                file.write(part)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise refused(error.errno or errno.EIO, path, str(error.strerror)) from error


def append_line(path: PathLike, text: str) -> None:
    """One line at the end of a file, on the disk when this returns; a torn line before it is closed."""
    check_output(path)
    with open(path, "ab+") as file:
        torn = False
        if file.tell():
            file.seek(-1, os.SEEK_END)
            torn = file.read(1) != b"\n"
        file.write(("\n" if torn else "").encode() + text.encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
