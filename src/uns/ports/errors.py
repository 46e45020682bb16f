"""
The error tree.

::

    UnsError
    ├── NotFound          no such row                                   (HTTP 404; a KeyError)
    ├── Conflict          the row's state forbids it                    (HTTP 409)
    ├── Rejected          the request contradicts policy or schema      (HTTP 422; a ValueError)
    │   └── NoPolicy      no policy covers the notification type
    ├── Forbidden         the caller may not do this                    (HTTP 403)
    ├── StoreRefused      the database refused the values; nothing written (HTTP 500)
    ├── SchemaMismatch    the database has not this version's schema    (HTTP 503)
    └── StoreUnavailable  the store did not answer; outcome unknown     (HTTP 503)
        ├── Busy          too much work is waiting; nothing was begun
        └── Closed        the runtime was closed; nothing was begun

``Stale`` is internal: a guarded write met a row that had moved. It never leaves a store.
"""

from __future__ import annotations

from typing import ClassVar


class UnsError(Exception):
    """
    Base of every error a caller may see.
    """

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())

    def __str__(self) -> str:
        return str(self.args[0])


class NotFound(UnsError, KeyError):
    """
    Notification not found.
    """

    code = "not_found"
    status = 404


class Conflict(UnsError):
    """
    The row's present state forbids this move.
    """

    code = "conflict"
    status = 409

    def __init__(
        self,
        message: str | None = None,
        *,
        obligation_owner_id: str | None = None,
        replay_blocked_by: str | None = None,
        reason: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.obligation_owner_id = obligation_owner_id
        self.replay_blocked_by = replay_blocked_by
        self.reason = reason
        if code is not None:
            self.code = code  # type: ignore[misc]  # a finer code than the class's


class Rejected(UnsError, ValueError):
    """
    The request contradicts the active policy or the schema.

    ``errors`` names each fault as (path, message); the path is dotted, ``""`` for the whole.
    """

    code = "validation_error"
    status = 422

    def __init__(self, message: str | None = None, *, path: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.path = path
        if code is not None:
            self.code = code  # type: ignore[misc]  # a finer code than the class's

    @property
    def errors(self) -> list[dict[str, str]]:
        return [{"path": self.path, "message": str(self)}]


class NoPolicy(Rejected):
    """
    No ACTIVE policy covers this notification type.
    """

    code = "no_policy"


class Forbidden(UnsError):
    """
    The caller may not do this.
    """

    code = "forbidden"
    status = 403


class StoreRefused(UnsError):
    """
    The database refused the values; nothing was written.
    """

    code = "store_refused"
    status = 500


class SchemaMismatch(UnsError):
    """
    The database does not hold the schema of this version.
    """

    code = "schema_mismatch"
    status = 503


class StoreUnavailable(UnsError):
    """
    The store did not answer; whether the change was made is unknown.
    """

    code = "store_unavailable"
    status = 503


class Busy(StoreUnavailable):
    """
    Too much work is waiting; nothing was begun.
    """

    code = "busy"


class Closed(StoreUnavailable):
    """
    The runtime is closed.
    """

    code = "closed"


class Stale(Exception):
    """
    A guarded write matched no row: someone else moved it first.
    """
