"""Embedded servers: found again, started again after a kill, stopped for good."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from support.services import libpq_url

from backend import embedded
from backend.embedded import acl
from backend.embedded.account import Account, make_reachable
from backend.embedded.errors import EmbeddedError
from backend.embedded.sockets import MAX_PATH_BYTES, socket_directory

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change who it is")


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="plait-test-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def used_home() -> Iterator[Path]:
    """A home in which PostgreSQL has been initialised; nothing runs there between tests."""
    with tempfile.TemporaryDirectory(prefix="plait-test-") as folder:
        embedded.start_postgres(Path(folder)).stop()
        yield Path(folder)


def postmaster(home: Path) -> psutil.Process:
    pid = int((home / "postgres" / "postmaster.pid").read_text().split()[0])
    return psutil.Process(pid)


def kill(*processes: psutil.Process) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # a child that went with its parent
            process.kill()


def test_postgres_is_found_again_and_keeps_its_data_when_killed(used_home: Path) -> None:
    server = embedded.start_postgres(used_home)
    try:
        with psycopg.connect(libpq_url(server.url), autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        first = postmaster(used_home)
        assert embedded.start_postgres(used_home) == server
        assert postmaster(used_home) == first

        kill(first, *first.children())
        assert embedded.start_postgres(used_home) == server
        assert postmaster(used_home) != first
        kill(postmaster(used_home))  # its children notice and end by themselves
        embedded.start_postgres(used_home)
        with psycopg.connect(libpq_url(server.url)) as connection:
            assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
    finally:
        server.stop()
    server.stop()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(libpq_url(server.url))


def test_postgres_starts_although_another_process_has_its_old_id(used_home: Path) -> None:
    stale = used_home / "postgres" / "postmaster.pid"
    stale.write_text(f"{os.getpid()}\n{used_home / 'postgres'}\n0\n5432\n\n\n\nready\n")
    embedded.start_postgres(used_home).stop()
    assert not stale.exists()


def test_nobody_else_may_reach_the_data(used_home: Path) -> None:
    used_home.chmod(0o755)
    postgres, valkey = embedded.start_postgres(used_home), embedded.start_valkey(used_home)
    try:
        for folder in ("postgres", "valkey"):
            assert (used_home / folder).stat().st_mode & 0o077 == 0
    finally:
        postgres.stop()
        valkey.stop()


def test_data_of_another_version_are_left_alone(home: Path) -> None:
    (home / "postgres").mkdir()
    (home / "postgres" / "PG_VERSION").write_text("12\n")
    with pytest.raises(EmbeddedError, match="of PostgreSQL 12"):
        embedded.start_postgres(home)


def test_a_server_that_cannot_start_says_what_it_logged(used_home: Path) -> None:
    with pytest.raises(EmbeddedError, match="no_such_setting"):
        embedded.start_postgres(used_home, {"no_such_setting": "1"})
    embedded.start_postgres(used_home).stop()


def test_valkey_is_found_again_and_started_again_when_killed(home: Path) -> None:
    server = embedded.start_valkey(home)
    try:
        with Redis.from_url(server.url) as client:
            client.set("key", "value")
            pid = client.info("server")["process_id"]
            assert embedded.start_valkey(home) == server
            assert client.get("key") == b"value"
            os.kill(pid, signal.SIGKILL)
        assert embedded.start_valkey(home) == server
        with Redis.from_url(server.url) as client:
            assert client.info("server")["process_id"] != pid
            assert client.config_get("port") == {"port": "0"}
            assert client.config_get("save") == {"save": ""}
    finally:
        server.stop()
    server.stop()
    with pytest.raises(RedisConnectionError), Redis.from_url(server.url) as client:
        client.ping()


def test_servers_outlive_whoever_started_them(used_home: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from backend import embedded\n"
        "embedded.start_postgres(Path(sys.argv[1])); embedded.start_valkey(Path(sys.argv[1]))\n"
        "os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(used_home)], check=False)
    assert done.returncode == -signal.SIGKILL
    began = time.monotonic()
    postgres, valkey = embedded.start_postgres(used_home), embedded.start_valkey(used_home)
    try:
        assert time.monotonic() - began < 2
        with psycopg.connect(libpq_url(postgres.url)) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with Redis.from_url(valkey.url) as client:
            assert client.ping()
    finally:
        embedded.stop_postgres(used_home)
        embedded.stop_valkey(used_home)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(libpq_url(postgres.url))
    embedded.stop_postgres(used_home / "not-there")
    embedded.stop_valkey(used_home / "not-there")
    assert not (used_home / "not-there").exists()


def test_a_deep_home_gets_a_short_and_private_socket(home: Path) -> None:
    deep = home / ("d" * 60) / ("e" * 60)
    postgres, valkey = embedded.start_postgres(deep), embedded.start_valkey(deep)
    try:
        assert len(valkey.url) < MAX_PATH_BYTES
        with psycopg.connect(libpq_url(postgres.url)) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with Redis.from_url(valkey.url) as client:
            assert client.ping()
    finally:
        postgres.stop()
        valkey.stop()
    socket = Path(valkey.url.removeprefix("unix://"))
    assert not socket.parent.exists()


def test_a_short_folder_that_somebody_else_made_is_not_trusted(home: Path) -> None:
    deep = home / ("d" * 100)
    folder = socket_directory(deep, "a.sock")
    assert folder != deep
    assert socket_directory(deep, "a.sock") == folder
    folder.chmod(0o755)
    with pytest.raises(EmbeddedError, match="not private"):
        socket_directory(deep, "a.sock")
    folder.rmdir()
    folder.symlink_to(home)
    with pytest.raises(EmbeddedError, match="not private"):
        socket_directory(deep, "a.sock")
    folder.unlink()


# What root lets PostgreSQL's account do


@as_root
def test_one_account_is_let_through_a_private_folder_and_no_further(home: Path) -> None:
    target = home / "private" / "inner" / "data"
    target.mkdir(parents=True)
    for folder in (home, home / "private", home / "private" / "inner"):
        folder.chmod(0o700)
    (home / "private" / "secret").write_text("secret")
    (home / "private" / "secret").chmod(0o600)
    account, stranger = Account(23456, 23456), Account(23457, 23457)
    make_reachable(target, account)

    def may(who: Account, *command: str) -> bool:
        done = subprocess.run(
            command,
            user=who.uid,
            group=who.gid,
            extra_groups=[],
            capture_output=True,
            check=False,
            cwd="/",
        )
        return done.returncode == 0

    assert may(account, "test", "-d", str(target))
    assert not may(account, "ls", str(home / "private"))
    assert not may(account, "touch", str(home / "private" / "x"))
    assert not may(account, "cat", str(home / "private" / "secret"))
    assert not may(stranger, "test", "-d", str(target))
    assert (home / "private").stat().st_mode & 0o007 == 0


@as_root
def test_letting_in_is_remembered_and_others_are_kept(home: Path) -> None:
    home.chmod(0o750)
    assert not acl.may_enter(home, 23456)
    acl.let_enter(home, 23456)
    acl.let_enter(home, 23457)
    acl.let_enter(home, 23456)
    assert acl.may_enter(home, 23456)
    assert acl.may_enter(home, 23457)
    assert not acl.may_enter(home, 23458)
    home.chmod(0o700)  # takes the mask away, and with it what the entries allowed
    assert not acl.may_enter(home, 23456)
    acl.let_enter(home, 23456)
    assert acl.may_enter(home, 23456)


def test_a_folder_open_to_all_or_owned_needs_no_entry(home: Path) -> None:
    home.chmod(0o711)
    assert acl.may_enter(home, 23456)
    home.chmod(0o700)
    assert acl.may_enter(home, os.geteuid())
    home.chmod(0o600)
    assert not acl.may_enter(home, os.geteuid())
    home.chmod(0o700)
