"""Database servers of a test's own: the machine's binaries, on loopback, in a temporary folder.

Debian's packages `postgresql` and `redis-server` have them. Both run as an unprivileged user where
the tests run as root (PostgreSQL insists), and end, by their process, with the context manager.
"""

import contextlib
import getpass
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import redis
import sqlalchemy

from orderly.testing.ports import free_port
from tests.support.waiting import eventually

POSTGRES_FOLDERS = "/usr/lib/postgresql"
UNPRIVILEGED = ("postgres", "nobody")
START_TIMEOUT = 30


def postgres_program(name):
    """Path of one of PostgreSQL's programs, of the newest version there is; None: not installed."""
    versions = Path(POSTGRES_FOLDERS).glob(f"*/bin/{name}")
    newest = sorted(versions, key=lambda path: float(path.parts[-3]))
    return str(newest[-1]) if newest else shutil.which(name)


def is_installed(server):
    """Whether "postgresql" or "redis-server" is."""
    program = postgres_program("initdb") if server == "postgresql" else shutil.which(server)
    return program is not None


def is_wanted(server):
    """Whether its tests are collected: in CI always, so that one that is missing is a failure."""
    return is_installed(server) or bool(os.environ.get("CI"))


@contextlib.contextmanager
def postgresql():
    """A PostgreSQL server; yields its URL for SQLAlchemy (psycopg, sync and async)."""
    assert is_installed("postgresql"), "install it: apt-get install postgresql"
    user = _user()
    with _folder(user) as folder:
        data, port = f"{folder}/data", free_port()
        create = [postgres_program("initdb"), "-D", data, "-U", "orderly", "-A", "trust", "-N"]
        subprocess.run(create, check=True, stdout=subprocess.DEVNULL, timeout=120, **_as(user))
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": "40",
            "shared_buffers": "16MB",
        }
        command = [postgres_program("postgres"), "-D", data, "-p", str(port)]
        command += [word for item in settings.items() for word in ("-c", "=".join(item))]
        url = f"postgresql+psycopg://orderly@127.0.0.1:{port}/postgres"
        with _running(command, folder, user, lambda: _answers_sql(url)):
            yield url


@contextlib.contextmanager
def redis_server():
    """A Redis server; yields its port."""
    assert is_installed("redis-server"), "install it: apt-get install redis-server"
    user = _user()
    with _folder(user) as folder:
        port = free_port()
        command = [shutil.which("redis-server"), "--port", str(port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", folder]
        with _running(command, folder, user, lambda: _answers_redis(port)):
            yield port


@contextlib.contextmanager
def _running(command, folder, user, answers):
    """A server from when it answers until it is told to end (SIGTERM) and has."""
    log = Path(folder, "server.log")
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, **_as(user))
    try:
        eventually(lambda: process.poll() is not None or answers(), START_TIMEOUT, every=0.05)
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers_sql(url):
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    try:
        engine.connect().close()
    except sqlalchemy.exc.OperationalError:
        return False
    return True


def _answers_redis(port):
    with redis.Redis(port=port) as client:
        try:
            return client.ping()
        except redis.ConnectionError:
            return False


def _user():
    """Who runs the servers: not root."""
    if os.geteuid() != 0:
        return getpass.getuser()
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in UNPRIVILEGED if name in known)


def _as(user):
    return (
        {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        if (os.geteuid() == 0)
        else {}
    )


@contextlib.contextmanager
def _folder(user):
    """A folder of that user's, outside of pytest's, which others may not enter."""
    with tempfile.TemporaryDirectory(prefix="orderly-db-", ignore_cleanup_errors=True) as folder:
        if os.geteuid() == 0:
            shutil.chown(folder, user)
        yield folder
