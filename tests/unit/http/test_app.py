"""
The application: made from a container, running between its start and its end.
"""

import asyncio
import time

import pytest
from dependency_injector import providers

from kit.asgi import Asgi, running
from kit.channels import SlowChannel
from kit.waiting import until
from kit.web import NOTIFICATIONS, OPERATOR, a_body, credentials
from uns.entrypoints.container import Container
from uns.entrypoints.http.app import create_app
from uns.entrypoints.settings import Settings
from uns.ports.errors import Closed


@pytest.fixture
def container(url):
    settings = Settings(database_url=url, credentials=credentials(operator=OPERATOR), send_wait_seconds=20.0)
    return Container(settings=providers.Object(settings))


async def test_a_service_of_its_own(container):
    """
    Given nothing but a database, then what is posted goes to LOG by the packaged policies.
    """
    app = create_app(container)
    async with running(app):
        answer = await Asgi(app, OPERATOR).post(NOTIFICATIONS, a_body())

    assert ("DELIVERED", ["LOG"]) == (answer.json["status"], answer.json["channels_succeeded"])


async def test_it_closes_what_it_was_given(container):
    """
    In the end nothing is open, and the worker is at rest.
    """
    app = create_app(container)
    async with running(app):
        await until(lambda: container.worker().healthy(asyncio.get_running_loop().time()))

    assert not container.worker().healthy(asyncio.get_running_loop().time())
    with pytest.raises(Closed):
        container.runtime().ping()


async def test_without_a_worker_nothing_is_sent(container):
    """
    What is accepted waits for another process.
    """
    app = create_app(container, work=False)
    async with running(app):
        answer = await Asgi(app, OPERATOR).post(NOTIFICATIONS, a_body(), headers={"Prefer": "respond-async"})
        await asyncio.sleep(0.05)
        look = await Asgi(app, OPERATOR).get(f"{NOTIFICATIONS}/{answer.json['notification_id']}")

    assert ("PENDING", 0) == (look.json["status"], look.json["attempts"])


async def test_a_server_that_stops_ends_the_work_and_the_waits(container):
    """
    Given a request that waits for a slow channel, when the server says that it is to end, then the
    request is answered as it stands, and the attempt is finished before the end.
    """
    slow = SlowChannel(0.3)
    container.channels().register("LOG", slow)
    stop = asyncio.Event()
    app = create_app(container, stop=stop)
    async with running(app):
        begun = time.monotonic()
        posted = asyncio.ensure_future(Asgi(app, OPERATOR).post(NOTIFICATIONS, a_body()))
        await until(lambda: slow.now)
        stop.set()
        container.submitter().hurry()
        answer = await posted
        assert "PENDING" == answer.json["status"]

    assert time.monotonic() - begun < 10
    assert (1, 0) == (len(slow.calls), slow.now)
