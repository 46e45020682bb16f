"""
Builders of policies, documents, snapshots and shapes.
"""

from uns.ports.documents import Origin, PolicyDocument
from uns.ports.policy import ChannelPlan, Policy, Shape, Snapshot
from uns.ports.vocabulary import AutonomyMode, DeliveryMode, NotificationIntent, PolicyStatus


def a_policy(policy_id="ops", notification_type="*", *, primary=("LOG",), **changes):
    """
    An ACTIVE, GUARANTEED policy for everything, without acknowledgment, that goes to ``primary``.
    """
    settings = {
        "status": PolicyStatus.ACTIVE,
        "delivery_mode": DeliveryMode.GUARANTEED,
        "require_ack": False,
        "channels": ChannelPlan(primary=primary),
        **changes,
    }
    return Policy(policy_id=policy_id, notification_type=notification_type, **settings)


def a_document(policy_id="ops", notification_type="*", *, file=None, **changes):
    """
    The policy as read from ``file``, or as made by a program.
    """
    policy = a_policy(policy_id, notification_type, **changes)
    return PolicyDocument(policy, Origin(file) if file else None)


def a_snapshot(*policies, revision=1):
    """
    A snapshot of these policies; its hash is made of their ids.
    """
    return Snapshot(hash="+".join(p.policy_id for p in policies), revision=revision, policies=policies)


def a_shape(notification_type="a.b", **changes):
    """
    The shape of a LIVE, OPERATIONAL request from ``app``.
    """
    settings = {
        "source": "app",
        "intent": NotificationIntent.OPERATIONAL,
        "autonomy_mode": AutonomyMode.LIVE,
        "irreversible": False,
        **changes,
    }
    return Shape(notification_type=notification_type, **settings)
