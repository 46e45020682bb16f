"""
What every channel adapter promises, and what LOG and RECORDING do with a message.
"""

import asyncio
import logging

from uns.adapters.channels.log import LogChannel
from uns.adapters.channels.recording import KEPT, RecordingChannel
from uns.ports.channel import ChannelResult


async def test_a_message_that_was_sent_is_a_success(channel, a_message):
    """
    When a message is sent, then the result is a success with a message id, and says nothing else.
    """
    result = await channel.send(a_message())

    assert isinstance(result, ChannelResult)
    assert (True, None, None) == (result.success, result.error, result.retry_after)
    assert result.message_id


async def test_the_message_id_is_that_of_the_idempotency_token(channel, a_message):
    """
    Given a message that is sent twice in a cycle, then both results have one message id; another
    notification, or a later cycle, has another.
    """
    messages = [a_message(), a_message(), a_message("n2"), a_message(cycle=2)]

    first, again, other, later = [(await channel.send(message)).message_id for message in messages]

    assert first == again
    assert 3 == len({first, other, later})


async def test_messages_are_sent_side_by_side(channel, a_message):
    """
    When many messages are sent at once, then each has its own success.
    """
    messages = [a_message(f"n{n}") for n in range(50)]

    results = await asyncio.gather(*(channel.send(message) for message in messages))

    assert all(result.success for result in results)
    assert 50 == len({result.message_id for result in results})


async def test_log_tells_of_a_notification_in_one_line(a_message, caplog):
    """
    When LOG sends, then one INFO line names id, type, source and title; the text itself stays out.
    """
    with caplog.at_level(logging.INFO, logger="uns.notifications"):
        await LogChannel().send(a_message())
    (record,) = caplog.records

    assert record.getMessage() == "n1 [system.alert] from pay: disk is filling up"
    assert (logging.INFO, "uns.notifications") == (record.levelno, record.name)


async def test_recording_keeps_what_it_sent(a_message):
    """
    When RECORDING sends, then the messages are kept, oldest first.
    """
    channel = RecordingChannel()
    messages = [a_message(), a_message("n2")]
    for message in messages:
        await channel.send(message)

    assert messages == list(channel.messages)


async def test_recording_keeps_the_last_thousand(a_message):
    """
    Given one message more than it keeps, then the oldest is gone.
    """
    channel = RecordingChannel()
    for n in range(KEPT + 1):
        await channel.send(a_message(f"n{n}"))

    assert 1000 == KEPT == len(channel.messages)
    assert ("n1", "n1000") == (channel.messages[0].notification.id, channel.messages[-1].notification.id)


async def test_each_recording_is_its_own(a_message):
    """
    Given two recordings, when one sends, then the other keeps nothing.
    """
    one, other = RecordingChannel(), RecordingChannel()
    await one.send(a_message())

    assert (1, 0) == (len(one.messages), len(other.messages))
