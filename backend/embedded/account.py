"""PostgreSQL refuses to run as root. Then it runs as a system account of its own, which is let
down to what it needs and no further."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from backend.embedded import acl
from backend.embedded.errors import EmbeddedError

NAME = "plait-postgres"


@dataclass(frozen=True, slots=True)
class Account:
    uid: int
    gid: int


def service_account() -> Account | None:
    """The account that PostgreSQL runs as: None for our own, else one that is made on first use."""
    if os.geteuid() != 0:
        return None
    return _known() or _created()


def _known() -> Account | None:
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        return None
    return Account(entry.pw_uid, entry.pw_gid)


def _created() -> Account:
    try:
        _create()
    except EmbeddedError:
        # Another process may have made it at the same time.
        if (made := _known()) is None:
            raise
        return made
    if (made := _known()) is None:
        raise EmbeddedError(f"the account {NAME} was made, but the system does not know it")
    return made


def _create() -> None:
    program = shutil.which("useradd", path=f"/usr/sbin:/sbin:{os.environ.get('PATH', os.defpath)}")
    try:
        subprocess.run(
            [
                *(program or "useradd", "--system", "--user-group", "--no-create-home"),
                *("--shell", "/usr/sbin/nologin", NAME),
            ],
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", "") or error
        raise EmbeddedError(
            f"PostgreSQL does not run as root, and the account {NAME} could not be made for it: "
            f"{reason}; run Plait as an ordinary user, or set DATABASE_URL"
        ) from error


def make_reachable(path: Path, account: Account) -> None:
    """Let ``account`` walk down to ``path``.

    A folder above that it may not enter, such as /root, gets an ACL entry that lets this one
    account pass through; nobody else, and not to read what is there.
    """
    for folder in reversed(path.absolute().parents):
        if acl.may_enter(folder, account.uid):
            continue
        try:
            acl.let_enter(folder, account.uid)
        except OSError as error:
            raise EmbeddedError(
                f"PostgreSQL does not run as root, and its account {NAME} may not enter {folder} "
                f"on the way to {path} ({error}); put it elsewhere (PLAIT_HOME for the data), run "
                "Plait as an ordinary user, or set DATABASE_URL"
            ) from error


def make_readable(tree: Path, account: Account) -> None:
    """Let ``account`` reach and read an installed package, whatever umask it was installed with."""
    make_reachable(tree, account)
    for path in (tree, *tree.rglob("*")):
        mode = path.lstat().st_mode
        wanted = mode | 0o444 | (0o111 if mode & 0o100 else 0)
        if wanted != mode and not path.is_symlink():
            path.chmod(wanted)
