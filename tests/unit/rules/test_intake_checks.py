"""
What only the service itself may send.
"""

import pytest

from uns.core.rules.intake_checks import RESERVED_NAMESPACES, check_producer
from uns.ports.errors import Rejected
from uns.ports.requests import SendNotificationRequest
from uns.ports.targets import PROTECTED_METADATA


def a_request(**changes):
    fields = {
        "notification_type": "system.alert",
        "intent": "OPERATIONAL",
        "title": "Disk full",
        "message": "The disk of db1 is full.",
        "source": "pay",
        "autonomy_context": {"autonomy_mode": "LIVE", "agent_id": "018f5e6a-7c1b-7d00-8000-000000000001"},
    }
    return SendNotificationRequest(**fields | changes)


@pytest.mark.parametrize("namespace", ["uns", "governance", "chain", "schedule"])
def test_reserved_types_come_only_from_the_service(namespace):
    """
    A producer's request under a reserved namespace is refused, though the request itself is valid.
    """
    request = a_request(notification_type=f"{namespace}.x")

    with pytest.raises(Rejected, match=f'"{namespace}."') as refused:
        check_producer(request)

    assert refused.value.path == "notification_type"
    assert f"{namespace}." in RESERVED_NAMESPACES


@pytest.mark.parametrize(
    "name", ["unsound.x", "uns_.x", "uns", "my.uns.x", "governance", "chains.x", "ask.schedule"]
)
def test_other_types_are_the_producers(name):
    """
    A namespace ends at its dot, and reserves nothing but what begins with it.
    """
    check_producer(a_request(notification_type=name))


@pytest.mark.parametrize("key", sorted(PROTECTED_METADATA))
def test_metadata_cannot_steer_a_channel(key):
    """
    Every key that an adapter would obey is refused by its path.
    """
    with pytest.raises(Rejected, match="is protected") as refused:
        check_producer(a_request(metadata={"host": "db1", key: None}))

    assert refused.value.path == f"metadata.{key}"


def test_the_documented_keys_are_protected():
    """
    The keys that the API names are among the protected ones.
    """
    assert {"email_to", "slack_channel", "pagerduty_routing_key", "uns_resolution"} <= PROTECTED_METADATA


@pytest.mark.parametrize(
    "metadata", [{}, {"host": "db1"}, {"nested": {"slack_channel": "#x"}}, {"Email_To": "x"}]
)
def test_other_metadata_is_the_producers(metadata):
    """
    Only the exact keys at the top level steer anything, so all else is free.
    """
    check_producer(a_request(metadata=metadata))
