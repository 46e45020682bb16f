"""
The channels that need nothing outside the process, and a message for them.
"""

import pytest

from kit.builders import AGENT
from uns.adapters.channels.log import LogChannel
from uns.adapters.channels.recording import RecordingChannel
from uns.ports.channel import ChannelMessage, Content
from uns.ports.requests import AutonomyContextRequest
from uns.ports.vocabulary import NotificationIntent

ADAPTERS = {"LOG": LogChannel, "RECORDING": RecordingChannel}


@pytest.fixture(params=ADAPTERS.values(), ids=ADAPTERS)
def channel(request):
    return request.param()


@pytest.fixture
def a_message():
    """
    Makes messages: one call each to one channel.
    """

    def make(id="n1", *, cycle=1, channel="LOG", **fields):
        content = Content(
            id=id,
            notification_type="system.alert",
            intent=NotificationIntent.OPERATIONAL,
            title="disk is filling up",
            message="the secret is 42",
            source="pay",
            autonomy_context=AutonomyContextRequest(autonomy_mode="LIVE", agent_id=AGENT),
            **fields,
        )
        return ChannelMessage(
            notification=content,
            target={},
            idempotency_token=f"{id}:{cycle}:{channel}",
            attempt=1,
            deadline=10.0,
        )

    return make
