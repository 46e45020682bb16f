"""
Where notifications go: what a call that hangs would keep waiting.
"""

import pytest

from kit.builders import a_notification, an_effective
from kit.channels import ScriptedChannel
from uns.adapters.channels.log import LogChannel
from uns.adapters.channels.recording import RecordingChannel
from uns.adapters.channels.registry import SimpleAdapterRegistry
from uns.adapters.channels.webhook import WebhookChannel
from uns.adapters.egress import Egress, GuardedClient
from uns.adapters.sources import SystemClock
from uns.core.loops.destinations import Destinations
from uns.ports.policy import ChannelPlan


class Telling:
    """
    An adapter that names what is behind a target.
    """

    def __init__(self):
        self.asked = 0

    def destination(self, target):
        self.asked += 1
        return target["host"]


@pytest.fixture
def telling():
    return Telling()


@pytest.fixture
def destinations(telling):
    webhook = WebhookChannel(
        GuardedClient(Egress()), SystemClock(), environ={"UNS_TARGET_HOOK": "https://env.example.org/s3cr3t"}
    )
    adapters = {
        "PAGER": ScriptedChannel(),
        "TOLD": telling,
        "LOG": LogChannel(),
        "RECORDING": RecordingChannel(),
        "WEBHOOK": webhook,
    }
    return Destinations(SimpleAdapterRegistry(adapters))


def a_row(hash="h", fallback=(), **targets):
    plan = ChannelPlan(primary=tuple(targets), fallback=fallback)
    return a_notification(effective=an_effective(channels=plan, targets=targets), effective_hash=hash)


@pytest.mark.parametrize(
    ("channel", "target", "destination"),
    [
        ("PAGER", {}, "PAGER"),
        ("PAGER", {"host": "x"}, "PAGER"),
        ("NOBODY", {}, "NOBODY"),
        ("TOLD", {"host": "x"}, "TOLD x"),
        ("TOLD", {"host": None}, None),
        ("TOLD", {}, "TOLD"),
        ("LOG", {}, None),
        ("RECORDING", {}, None),
        ("WEBHOOK", {"url": "https://a.example.org/hook"}, "WEBHOOK a.example.org"),
        ("WEBHOOK", {"url": "https://a.example.org/other"}, "WEBHOOK a.example.org"),
        ("WEBHOOK", {"url": "http://a.example.org:8080/hook"}, "WEBHOOK a.example.org:8080"),
        ("WEBHOOK", {"url_env": "UNS_TARGET_HOOK"}, "WEBHOOK env.example.org"),
        ("WEBHOOK", {"url_env": "UNS_TARGET_NONE"}, "WEBHOOK"),
        ("WEBHOOK", {"url": "http://10.0.0.1/"}, "WEBHOOK"),
        ("WEBHOOK", {"url": "https://a.example.org", "secret_env": "UNS_TARGET_NONE"}, "WEBHOOK"),
        ("WEBHOOK", {}, "WEBHOOK"),
    ],
)
def test_a_call_has_a_destination(destinations, channel, target, destination):
    """
    The channel, and what its adapter tells of the target; None where nothing can hang. A target that
    is wrong is the channel's: the call itself will say so.
    """
    assert destination == destinations.of(channel, target)


def test_a_row_goes_to_those_of_its_primaries(destinations):
    """
    Sorted, each once, without those that cannot hang; fallbacks do not count.
    """
    row = a_row(TOLD={"host": "x"}, PAGER={}, LOG={}, fallback=("WEBHOOK",))

    assert ("PAGER", "TOLD x") == destinations.of_row(row)
    assert () == destinations.of_row(a_row("h2", LOG={}))


def test_a_channel_without_a_target_has_one_that_is_empty(destinations):
    """
    Policies may leave it out.
    """
    row = a_notification(effective=an_effective(channels=ChannelPlan(primary=("PAGER",))))

    assert ("PAGER",) == destinations.of_row(row)


def test_rows_with_the_same_settings_are_asked_about_once(destinations, telling):
    """
    Settings that are equal have an equal hash, targets included.
    """
    rows = [a_row("h1", TOLD={"host": "x"}), a_row("h1", TOLD={"host": "x"}), a_row("h2", TOLD={"host": "y"})]

    assert [("TOLD x",), ("TOLD x",), ("TOLD y",)] == [destinations.of_row(row) for row in rows]
    assert 2 == telling.asked


def test_what_leads_to_a_destination_is_known_by_its_hash(destinations):
    """
    Of the rows seen so far; a row with two destinations leads to both.
    """
    for row in (
        a_row("h1", TOLD={"host": "x"}),
        a_row("h2", TOLD={"host": "y"}, PAGER={}),
        a_row("h3", PAGER={}),
        a_row("h4", LOG={}),
    ):
        destinations.of_row(row)

    assert ("h1",) == destinations.leading_to({"TOLD x"})
    assert ("h2", "h3") == destinations.leading_to({"PAGER"})
    assert ("h1", "h2") == destinations.leading_to({"TOLD x", "TOLD y", "TOLD z"})
    assert () == destinations.leading_to(set()) == destinations.leading_to({"SLACK"})


def test_the_memory_is_bounded(destinations, telling):
    """
    Given more settings than are remembered, then they are asked about anew, and the answers stay right.
    """
    for n in range(3000):
        assert (f"TOLD {n}",) == destinations.of_row(a_row(f"h{n}", TOLD={"host": n}))

    assert len(destinations.leading_to({f"TOLD {n}" for n in range(3000)})) <= 1024
    assert ("TOLD 0",) == destinations.of_row(a_row("h0", TOLD={"host": 0}))
