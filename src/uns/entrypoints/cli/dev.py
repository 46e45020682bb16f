"""
``uns serve --dev``: keys made on the first start, and three commands to try them with.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

import msgspec
from msgspec import Struct

from uns.entrypoints.cli.exits import Failed
from uns.entrypoints.settings import KEYS
from uns.ports.identity import Role

OPERATOR_KEY = KEYS[Role.OPERATOR][0]
DEMO_FILE = "uns-demo.json"

_REQUEST = (
    '{"notification_type": "ask.demo", "intent": "OPERATIONAL", "source": "demo", '
    '"title": "May I restart the cache?", "message": "Latency is up since 09:00.", '
    '"autonomy_context": {"autonomy_mode": "LIVE", "agent_id": "2c5f9b4c-6b3e-4d1a-9c12-4a8f0c8e7b11"}}'
)


class Keys(Struct, frozen=True, kw_only=True):
    """
    The keys of development by their variable. ``file`` is None where they end with the process.
    """

    values: dict[str, str]
    file: Path | None
    fresh: bool


def dev_keys(database: Path | None) -> Keys:
    """
    The keys kept beside a database; made, and readable by their owner alone, when there are none.

    Raises:
        Failed: the file cannot be written, or does not hold keys.
    """
    values = {key: secrets.token_urlsafe(24) for key, _ in KEYS.values()}
    if database is None:
        return Keys(values=values, file=None, fresh=True)
    file = database.with_name(f"{database.name}.dev-credentials.json")
    try:
        fresh = _store(file, values)
        return Keys(values=values if fresh else _stored(file), file=file, fresh=fresh)
    except OSError as error:
        raise Failed(f"the keys of development cannot be kept in {file}: {error.strerror}") from None


def welcome(url: str, database: str, keys: Keys | None) -> str:
    """
    What a developer sees. ``keys`` is None where the environment has some.
    """
    lines = [f"uns listens on {url}, database {database}", ""]
    if keys is None:
        lines += ["The keys are those of the environment."]
    elif keys.fresh:
        lines += ["Keys for development, shown this once:", ""]
        lines += [f"  {_role(name):9} {value}" for name, value in keys.values.items()]
        lines += ["", f"They are kept in {keys.file}." if keys.file else "They end with this process."]
    else:
        lines += [f"The keys for development are in {keys.file}."]
    lines += ["", "Ask, look, answer, in another terminal:", "", *_commands(url, _shown(keys)), ""]
    return "\n".join(lines)


def _commands(url: str, key: str) -> list[str]:
    """
    Lines for ``sh``. The first leaves its answer in a file, from which the others take the id.
    """
    curl = r"curl -s -w '\n'"
    notifications = f"{url}/api/v1/notifications"
    header = f'-H "Authorization: Bearer {key}"'
    one = f'{notifications}/$(cut -d \\" -f 4 {DEMO_FILE})'
    return [
        f"  {curl} {notifications} {header} -d '{_REQUEST}' | tee {DEMO_FILE}",
        f"  {curl} {one} {header}",
        f"  {curl} -X POST {one}/ack {header}",
    ]


def _shown(keys: Keys | None) -> str:
    # A key that was shown once is not shown again: the shell takes it from where it is.
    if keys is None:
        return f"${OPERATOR_KEY}"
    if keys.fresh or keys.file is None:
        return keys.values[OPERATOR_KEY]
    return f'$(cut -d \\" -f 4 {quote(str(keys.file))})'


def _role(variable: str) -> str:
    return next(role.lower() for role, (key, _) in KEYS.items() if key == variable)


def _store(file: Path, values: Mapping[str, str]) -> bool:
    """
    Write the file, whole, unless it is there: two services may start at once.
    """
    if file.exists():
        return False
    draft = file.with_name(f"{file.name}.{secrets.token_hex(4)}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(msgspec.json.encode(values) + b"\n")
    try:
        os.link(draft, file)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _stored(file: Path) -> dict[str, str]:
    try:
        values = msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeError):
        values = {}
    if OPERATOR_KEY not in values or not set(values) <= {key for key, _ in KEYS.values()}:
        raise Failed(f"{file} does not hold keys for development: delete it, and new ones are made")
    return values
