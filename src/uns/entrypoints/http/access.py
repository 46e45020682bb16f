"""
Who may call which route: one table, asked before any body is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from litestar.exceptions import MethodNotAllowedException
from litestar.types import ASGIApp, Receive, Scope, Send

from uns.core.rules.access import Keyring
from uns.ports.errors import UnsError
from uns.ports.identity import Capability, Credential, Identity

_API = "/api/v1/notifications"
_RUNTIME = "/api/v1/runtime"

NEEDS: dict[tuple[str, str], Capability | None] = {
    ("GET", "/health"): None,
    ("GET", "/healthz"): None,
    ("GET", "/ready"): Capability.READ,
    ("GET", "/readyz"): Capability.READ,
    ("POST", _API): Capability.SEND,
    ("POST", f"{_API}/simulate"): Capability.SEND,
    ("GET", f"{_API}/{{notification_id}}"): Capability.READ,
    ("GET", f"{_API}/{{notification_id}}/ack-status"): Capability.READ,
    ("GET", f"{_API}/{{notification_id}}/delivery"): Capability.READ,
    ("POST", f"{_API}/{{notification_id}}/ack"): Capability.RESPOND,
    ("POST", f"{_API}/{{notification_id}}/dismiss"): Capability.RESPOND,
    ("POST", f"{_API}/{{notification_id}}/withdraw"): Capability.SEND,
    ("POST", "/v1/notifications/{notification_id}/ack"): Capability.RESPOND,
    ("POST", "/v1/notifications/{notification_id}/dismiss"): Capability.RESPOND,
    ("GET", f"{_RUNTIME}/notifications/{{notification_id}}"): Capability.READ,
    ("POST", f"{_RUNTIME}/notifications/{{notification_id}}/replay"): Capability.ADMIN,
    ("GET", f"{_RUNTIME}/dead-letters"): Capability.READ,
    ("GET", f"{_RUNTIME}/callbacks"): Capability.READ,
    ("POST", f"{_RUNTIME}/callbacks/{{event_id}}/rearm"): Capability.ADMIN,
    ("DELETE", "/api/v1/dlq/{notification_id}"): Capability.ADMIN,
    ("POST", "/api/v1/policies/reload"): Capability.ADMIN,
}
"""
The capability that each route needs; None is public. A route that is not here is refused.

HEAD is GET by the time it comes here (see ``envelope``).
"""


class Unauthorized(UnsError):
    """
    Missing or invalid API key: send one as `Authorization: Bearer <key>`.
    """

    code = "unauthorized"
    status = 401


class InsufficientScope(UnsError):
    """
    The credential lacks the capability that the route needs.
    """

    code = "insufficient_scope"
    status = 403


class WriteAuthNotConfigured(UnsError):
    """
    No API credential is configured: set UNS_API_KEY, or start with `uns serve --dev`.
    """

    code = "write_auth_not_configured"
    status = 503


class Gate:
    """
    Stands before every route: who passes has an identity in ``request.user``, where one is needed.

    A middleware and no guard, for whose every call the framework copies the handler.
    """

    def __init__(self, credentials: Sequence[Credential]) -> None:
        self._keyring = Keyring(credentials)

    def __call__(self, app: ASGIApp) -> ASGIApp:
        """
        ``app`` behind the gate.
        """

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            self.admit(scope)
            await app(scope, receive, send)

        return guarded

    def admit(self, scope: Scope) -> None:
        """
        Let a request through.

        Raises:
            Unauthorized: no credential, or one that is not configured.
            InsufficientScope: the credential lacks the capability.
            WriteAuthNotConfigured: a write to a service without any credential.
        """
        route = (scope.get("method"), scope.get("path_template"))
        if route not in NEEDS:
            _refuse_route(*route)
        need = NEEDS[route]
        if need is not None:
            scope["user"] = self._verified(scope, need)

    def _verified(self, scope: Scope, need: Capability) -> Identity:
        if not self._keyring and need is not Capability.READ:
            raise WriteAuthNotConfigured
        presented = _presented(scope)
        identity = self._keyring.identify(presented) if presented else None
        if identity is None:
            raise Unauthorized
        if need not in identity.capabilities:
            raise InsufficientScope(f"this credential lacks the capability: {need}")
        return identity


def _refuse_route(method: object, template: object) -> NoReturn:
    if known := [known for known, path in NEEDS if path == template]:  # OPTIONS, which the framework adds
        raise MethodNotAllowedException(headers={"Allow": ", ".join(known)})
    raise InsufficientScope(f"no credential opens {method} {template}")


def _presented(scope: Scope) -> str:
    headers = dict(scope["headers"])
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    bearer = token.strip() if scheme.lower() == b"bearer" else b""
    return (bearer or headers.get(b"x-uns-api-key", b"").strip()).decode("latin-1")
