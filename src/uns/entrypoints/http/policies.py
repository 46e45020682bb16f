"""
Policies over HTTP: put a folder in force.
"""

from __future__ import annotations

import os
from pathlib import Path

from litestar import post
from litestar.params import RawBody

from uns.entrypoints.http.bodies import ReloadBody, decoded
from uns.entrypoints.http.types import Caller, Service
from uns.ports.errors import Forbidden
from uns.ports.policy import PolicyReload


class PolicyDirNotAllowed(Forbidden):
    """
    Only folders inside UNS_POLICY_DIR can be loaded over HTTP.
    """

    code = "policy_dir_not_allowed"


@post(
    "/api/v1/policies/reload",
    status_code=200,
    summary="Put a folder of policies in force",
    sync_to_thread=True,
)
def reload_policies(body: RawBody, request: Caller, service: Service) -> PolicyReload:
    """
    All of it or nothing: a fault in one file leaves the policies as they are.
    """
    wanted = decoded(body, ReloadBody)
    folder = _inside(service.settings.policy_dir, wanted.policy_dir)
    return service.runtime.reload_policies(folder, actor=request.user.principal, allow_gaps=wanted.allow_gaps)


def _inside(root: str | None, wanted: str) -> Path:
    """
    The folder that ``wanted`` names, seen from ``root`` or else from where the service runs.
    """
    if root is None:
        raise PolicyDirNotAllowed
    base = os.path.realpath(root)
    # Resolved before it is looked at, so that neither ".." nor a link leads out.
    named = [Path(os.path.realpath(start, strict=False)) for start in (os.path.join(base, wanted), wanted)]
    inside = [path for path in named if path.is_relative_to(base)]
    if not inside:
        raise PolicyDirNotAllowed
    return next((path for path in inside if os.path.isdir(path)), inside[0])
