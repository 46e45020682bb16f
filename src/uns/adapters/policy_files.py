"""
Policy documents from a folder of YAML files, and those that come with the package.

Nothing is opened before it is known to be a regular file inside the folder, of a size worth
reading; all sizes are added up before the first file is read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from msgspec import Struct

from uns.adapters.strict_yaml import read
from uns.ports.checks import quoted
from uns.ports.documents import PolicyDocument
from uns.ports.errors import NotFound, Rejected
from uns.ports.policy import Overlay, Policy
from uns.ports.strict import convert
from uns.ports.vocabulary import AutonomyMode

FILE_BYTES = 1024 * 1024
FOLDER_BYTES = 64 * 1024 * 1024
_NAME_CHARS = 255

_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class PolicyFolder:
    """
    The ``*.yaml`` and ``*.yml`` files of one folder, one policy each.

    Folders inside it, hidden files and ``*.schema.yaml`` (context schemas of the governance gate)
    are passed over. A symbolic link is followed as long as it stays inside.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)

    def load(self) -> Sequence[PolicyDocument]:
        found = self._files()
        if sum(file.size for file in found) > FOLDER_BYTES:
            raise Rejected(f"the folder holds more than {FOLDER_BYTES} bytes of policies")
        return tuple(_policy(_text(file), file.name) for file in found)

    def _files(self) -> list[_File]:
        name = quoted(str(self._folder), _NAME_CHARS)
        try:
            inside = os.path.realpath(self._folder, strict=True)
            entries = sorted(filter(_is_policy_file, os.listdir(inside)))
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"there is no policy folder {name}") from None
        except (OSError, ValueError) as error:
            raise Rejected(f"the policy folder {name} cannot be read: {_reason(error)}") from None
        return [_found(inside, entry) for entry in entries]


class _File(Struct, frozen=True):
    name: str
    path: str
    size: int


def packaged_policies() -> tuple[PolicyDocument, ...]:
    """
    Every policy that comes with the service, in file-name order.
    """
    folder = files("uns.adapters") / "packaged_policies"
    found = sorted((entry for entry in folder.iterdir() if _is_policy_file(entry.name)), key=lambda e: e.name)
    return tuple(_policy(entry.read_text("utf-8"), entry.name) for entry in found)


def _is_policy_file(name: str) -> bool:
    lower = name.lower()
    return (
        lower.endswith((".yaml", ".yml")) and not lower.endswith(".schema.yaml") and not name.startswith(".")
    )


def _found(inside: str, entry: str) -> _File:
    name = quoted(entry, _NAME_CHARS)
    try:
        path = os.path.realpath(os.path.join(inside, entry), strict=True)
        facts = os.stat(path, follow_symlinks=False)
    except OSError as error:
        raise Rejected(f"{name} cannot be read: {_reason(error)}") from None
    if os.path.commonpath((inside, path)) != inside:
        raise Rejected(f"{name} leads out of the folder")
    _refuse_oddities(facts, name)
    return _File(name, path, facts.st_size)


def _refuse_oddities(facts: os.stat_result, name: str) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise Rejected(f"{name} is not a regular file")
    if facts.st_size > FILE_BYTES:
        raise Rejected(f"{name} has more than {FILE_BYTES} bytes")


def _text(file: _File) -> str:
    content = _content(file)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Rejected(f"{file.name}, line {line} is not UTF-8") from None


def _content(file: _File) -> bytes:
    try:
        with open(os.open(file.path, _OPEN), "rb") as opened:
            _refuse_oddities(os.fstat(opened.fileno()), file.name)  # it may not be what was looked at
            return opened.read(FILE_BYTES)
    except OSError as error:
        raise Rejected(f"{file.name} cannot be read: {_reason(error)}") from None


def _policy(text: str, name: str) -> PolicyDocument:
    document = read(text, name)
    try:
        return PolicyDocument(_typed(document.value), document.origin)
    except Rejected as fault:
        raise document.origin.locate(fault) from None


def _typed(value: Any) -> Policy:
    if isinstance(value, dict):
        if "rules" in value and "schema" in value:
            told = "this is a governance gate, not a notification policy: keep gates in a folder of their own"
            raise Rejected(told, path="rules")
        # Entry by entry, for the converter does not say which key of a mapping it means.
        for mode, overlay in _entries(value, "autonomy"):
            convert(mode, AutonomyMode, f"autonomy.{mode}")
            convert(overlay, Overlay, f"autonomy.{mode}")
        for channel, target in _entries(value, "targets"):
            convert(target, dict[str, Any], f"targets.{channel}")
    return convert(value, Policy)


def _entries(value: dict[str, Any], name: str) -> list[tuple[str, Any]]:
    entries = value.get(name)
    return list(entries.items()) if isinstance(entries, dict) else []


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "the path is not valid"
