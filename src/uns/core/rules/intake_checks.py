"""
What a producer may not ask for, though the service itself may.

Requests check their own fields wherever they are made. These checks stand apart, so that the
service's own requests (approvals, alerts, chain and scheduled work) pass.
"""

from __future__ import annotations

from uns.ports.checks import fault
from uns.ports.requests import SendNotificationRequest
from uns.ports.targets import PROTECTED_METADATA

RESERVED_NAMESPACES = ("uns.", "governance.", "chain.", "schedule.")


def check_producer(request: SendNotificationRequest) -> None:
    """
    Let a producer's request pass, or refuse it.

    Raises:
        Rejected: its type lies in a reserved namespace, or its metadata has, at the top level, a key
            that an adapter would obey.
    """
    if request.notification_type.startswith(RESERVED_NAMESPACES):
        namespace = request.notification_type.partition(".")[0]
        raise fault(
            "notification_type", f'must not begin with "{namespace}.": only the service itself sends those'
        )
    if not PROTECTED_METADATA.isdisjoint(request.metadata):
        key = next(key for key in request.metadata if key in PROTECTED_METADATA)
        raise fault(f"metadata.{key}", "is protected: channels are configured by the operator's policy")
