"""
Which caller presents a credential, and what that allows.
"""

from itertools import permutations

import pytest

from kit.web import credentials
from uns.core.rules.access import CAPABILITIES, Keyring, digest
from uns.ports.identity import Capability, Role

READ, SEND, RESPOND, ADMIN = Capability


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        (Role.OPERATOR, {READ, SEND, RESPOND, ADMIN}),
        (Role.PRODUCER, {READ, SEND}),
        (Role.RESPONDER, {READ, RESPOND}),
        (Role.OBSERVER, {READ}),
    ],
)
def test_a_class_has_its_capabilities(role, allowed):
    """
    The matrix of the reference.
    """
    assert allowed == CAPABILITIES[role]


@pytest.mark.parametrize("role", Role)
def test_a_caller_is_known_by_the_value(role):
    """
    The configured principal, and the capabilities of its class.
    """
    identity = Keyring(credentials(**{role.lower(): "key"})).identify("key")

    assert (f"local-{role.lower()}", CAPABILITIES[role]) == (identity.principal, identity.capabilities)


@pytest.mark.parametrize("presented", ["", "KEY", "ke", "keys", " key", "key ", "key,", "\0", "\ud800", "é"])
def test_another_value_is_nobody(presented):
    """
    Exactly the value, and nothing near it.
    """
    assert Keyring(credentials(operator="key")).identify(presented) is None


@pytest.mark.parametrize("given", [credentials(), ()])
def test_an_empty_ring_knows_nobody(given):
    """
    It is false, so that a door can tell it from one that does not know this key.
    """
    ring = Keyring(given)

    assert (False, None) == (bool(ring), ring.identify("key"))
    assert Keyring(credentials(observer="key"))


@pytest.mark.parametrize("presented", ["old", "new"])
def test_a_rotating_credential_has_two_values(presented):
    """
    The same caller by either.
    """
    ring = Keyring(credentials(producer="old,new"))

    assert "local-producer" == ring.identify(presented).principal
    assert ring.identify("old,new") is None


@pytest.mark.parametrize("order", list(permutations(Role)))
def test_equal_values_combine_under_the_first_class(order):
    """
    Given one value for several classes, in whatever order they are configured, then it allows what
    any of them does, as the principal of the first of operator, responder, producer, observer.
    """
    for size in (2, 3, 4):
        roles = order[:size]
        identity = Keyring(credentials(**{role.lower(): "key" for role in roles})).identify("key")
        first = next(
            role for role in (Role.OPERATOR, Role.RESPONDER, Role.PRODUCER, Role.OBSERVER) if role in roles
        )

        assert f"local-{first.lower()}" == identity.principal
        assert frozenset().union(*(CAPABILITIES[role] for role in roles)) == identity.capabilities


def test_only_the_shared_value_combines():
    """
    Given a class that rotates to the value of another, then the old one stays what it was.
    """
    ring = Keyring(credentials(producer="old,shared", responder="shared"))

    assert CAPABILITIES[Role.PRODUCER] == ring.identify("old").capabilities
    assert {READ, SEND, RESPOND} == ring.identify("shared").capabilities
    assert "local-responder" == ring.identify("shared").principal


def test_values_are_kept_as_digests():
    """
    Nothing of a key can be read from what is kept of it.
    """
    (credential,) = credentials(operator="a-long-secret")

    assert (digest("a-long-secret"),) == credential.digests
    assert b"secret" not in b"".join(credential.digests)
    assert 32 == len(credential.digests[0])
