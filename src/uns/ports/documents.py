"""
Where policy documents come from, and how a fault in one is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from uns.ports.errors import Rejected
from uns.ports.policy import Policy


class Origin(Struct, frozen=True):
    """
    The file a document was read from. ``lines`` has the line, from 1, of each dotted key path.
    """

    file: str
    lines: dict[str, int] = {}

    def locate(self, fault: Rejected) -> Rejected:
        """
        The same fault, told with the file and the line it stands in.

        A key that is missing stands where the mapping stands that lacks it.
        """
        path = fault.path
        while path and path not in self.lines:
            path = path.rpartition(".")[0]
        line = f", line {self.lines[path]}" if path in self.lines else ""
        return Rejected(f"{self.file}{line}: {fault}", path=fault.path, code=fault.code)


class PolicyDocument(Struct, frozen=True):
    """
    One policy as somebody wrote it: its types are right, its meaning is unchecked.
    """

    policy: Policy
    origin: Origin | None = None


class PolicyDocuments(Protocol):
    """
    A folder of policy files, read as a whole.
    """

    def load(self) -> Sequence[PolicyDocument]:
        """
        Every policy in the folder, in file-name order.

        Raises:
            NotFound: there is no such folder.
            Rejected: a file is not a policy; the message names file, line and key.
        """
        ...
