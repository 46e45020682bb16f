"""
What is done when a process starts, before it opens its doors.
"""

from __future__ import annotations

from uns.entrypoints.sdk import Runtime
from uns.entrypoints.settings import Settings
from uns.ports.errors import Conflict, NotFound, Rejected, UnsError
from uns.ports.policy import PolicyReload

GAP = "policy_gap"
GAP_REMEDY = " (`uns init --allow-gaps` puts them in force all the same)"


class PoliciesRefused(UnsError):
    """
    The policies in UNS_POLICY_DIR cannot come into force; those before stay.
    """

    code = "policies_refused"


def put_in_force(runtime: Runtime, settings: Settings, *, allow_gaps: bool = False) -> PolicyReload | None:
    """
    Load the policies of ``UNS_POLICY_DIR``; None where that is not set.

    Args:
        allow_gaps: also where a type in use would be left without a policy.

    Raises:
        PoliciesRefused: one of them is wrong, or they may not follow those in force.
    """
    if settings.policy_dir is None:
        return None
    try:
        return runtime.reload_policies(settings.policy_dir, actor=settings.principal, allow_gaps=allow_gaps)
    except (Conflict, NotFound, Rejected) as error:
        remedy = GAP_REMEDY if error.code == GAP else ""
        raise PoliciesRefused(f"UNS_POLICY_DIR: {error}{remedy}") from error
