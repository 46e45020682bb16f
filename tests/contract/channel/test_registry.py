"""
Registries: adapters by name, and one registry over another.
"""

import pytest

from kit.builders import NOW
from kit.channels import ScriptedChannel
from uns.adapters.channels.registry import LayeredRegistry, SimpleAdapterRegistry
from uns.adapters.memory.pubsub import InProcessPubSub
from uns.adapters.memory.store import MemoryStore
from uns.adapters.sources import ManualClock
from uns.entrypoints.wiring import Options, assemble

SLACK, SMS, OTHER = ScriptedChannel(), ScriptedChannel(), ScriptedChannel()


class Falsy(ScriptedChannel):
    """
    An adapter that is false, as one with an empty list of messages may be.
    """

    def __bool__(self):
        return False


def layered(adapters):
    """
    A registry whose adapters all lie below.
    """
    return LayeredRegistry(SimpleAdapterRegistry(), SimpleAdapterRegistry(adapters))


def above(adapters):
    """
    A registry whose adapters all lie above.
    """
    return LayeredRegistry(SimpleAdapterRegistry(adapters), SimpleAdapterRegistry())


EVERY = pytest.mark.parametrize("make", [SimpleAdapterRegistry, layered, above])


@EVERY
def test_an_adapter_is_found_by_its_name(make):
    """
    Given two adapters, then each is found under its own name, that very object.
    """
    registry = make({"SLACK": SLACK, "SMS": SMS})

    assert registry.get("SLACK") is SLACK
    assert registry.get("SMS") is SMS


@pytest.mark.parametrize("name", ["EMAIL", "slack", "", "SLACK "])
@EVERY
def test_an_unknown_name_is_none(make, name):
    """
    When no adapter has a name, letter by letter, then there is None.
    """
    assert make({"SLACK": SLACK}).get(name) is None


@EVERY
def test_the_names_are_those_of_the_adapters(make):
    """
    The names are all there are, each once; a registry without adapters has none.
    """
    assert sorted(make({"SMS": SMS, "SLACK": SLACK}).names()) == ["SLACK", "SMS"]
    assert sorted(make({}).names()) == []


@EVERY
def test_an_adapter_that_is_false_is_an_adapter(make):
    """
    Given an adapter whose truth value is False, then it is found all the same.
    """
    adapter = Falsy()

    assert make({"SLACK": adapter}).get("SLACK") is adapter


def test_an_adapter_can_be_registered_later():
    """
    When an adapter is registered, then it is found; under a name that was taken it replaces the old.
    """
    registry = SimpleAdapterRegistry({"SLACK": SLACK})
    registry.register("SMS", SMS)
    registry.register("SLACK", OTHER)

    assert (OTHER, SMS) == (registry.get("SLACK"), registry.get("SMS"))
    assert sorted(registry.names()) == ["SLACK", "SMS"]


def test_a_registry_is_its_own():
    """
    Given the mapping that a registry was made of, when it changes, then the registry does not.
    """
    adapters = {"SLACK": SLACK}
    registry = SimpleAdapterRegistry(adapters)
    adapters["SMS"] = SMS

    assert list(registry.names()) == ["SLACK"]


def test_names_seen_stay_as_they_were():
    """
    Given the names of a registry, when another adapter is registered, then iterating goes on.
    """
    registry = SimpleAdapterRegistry({"SLACK": SLACK})
    names = registry.names()
    registry.register("SMS", SMS)

    assert list(names) == ["SLACK"]


def test_the_upper_registry_goes_first():
    """
    Given a name in both layers, then the upper one's adapter is found, even one that is false; the
    rest shines through, and what is registered later too.
    """
    upper, lower = (
        SimpleAdapterRegistry({"SLACK": SLACK}),
        SimpleAdapterRegistry({"SLACK": OTHER, "SMS": SMS}),
    )
    registry = LayeredRegistry(upper, lower)
    falsy = Falsy()
    upper.register("EMAIL", falsy)
    lower.register("EMAIL", OTHER)

    assert (SLACK, SMS, falsy) == tuple(registry.get(name) for name in ("SLACK", "SMS", "EMAIL"))
    assert sorted(registry.names()) == ["EMAIL", "SLACK", "SMS"]


@pytest.mark.parametrize(
    ("registered", "names"), [(None, {"LOG", "RECORDING"}), ({"SLACK": SLACK}, {"LOG", "RECORDING", "SLACK"})]
)
def test_every_process_has_log_and_recording(registered, names):
    """
    Given the adapters that a host registers, or none, then its process also has the built-in ones.
    """
    adapters = None if registered is None else SimpleAdapterRegistry(registered)
    ledger = assemble(MemoryStore(ManualClock(NOW)), InProcessPubSub(), adapters, Options())

    assert names == ledger.dispatcher.channels
