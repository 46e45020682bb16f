import asyncio
import gc
import logging
import socket
import ssl
import time

import pytest
import trustme

from kit.builders import NOW
from kit.receiver import (
    Names,
    answers,
    floods,
    hangs,
    head,
    receiving,
    resets,
    says,
    trickles,
)
from kit.waiting import until
from uns.adapters.egress import Egress, Failed, GuardedClient, Refused, SystemResolver, classify

ADMITTED = Egress.parse("127.0.0.1")
INNER = "127.0.0.2"
"""Loopback too, and not admitted."""

HOOKS = "hooks.example.org"
LIMIT = 0.2


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


IPV6 = has_ipv6()


def a_client(*answers, host=HOOKS, egress=ADMITTED, **options):
    """
    A client for which ``host`` has these addresses, one list for each time it is asked for.
    """
    return GuardedClient(egress, resolve=Names({host: answers or (["127.0.0.1"],)}), **options)


async def post(client, url, seconds=5.0, **headers):
    return await client.request("POST", url, headers=headers, body=b"{}", seconds=seconds)


async def test_a_request_arrives_as_it_was_given():
    """
    Given a name, when it is called, then the request carries the name, the whole path and query, the
    headers and the body, and the answer is what was said.
    """
    async with receiving(answers(202, b"thanks", {"X-Said": "yes"})) as receiver:
        url = receiver.url("/a/b%20c?d=e", HOOKS)
        answer = await a_client().request("PUT", url, headers={"X-Name": "väl"}, body=b"\x00\xff")

    (request,) = receiver.requests
    assert ("PUT", "/a/b%20c?d=e", b"\x00\xff") == (request.method, request.target, request.body)
    assert f"{HOOKS}:{receiver.port}" == request.headers["host"]
    assert ("väl".encode().decode("latin-1"), "uns") == (
        request.headers["x-name"],
        request.headers["user-agent"],
    )
    assert (202, b"thanks", "yes") == (answer.status, answer.body, answer.header("x-said"))


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_a_body_may_be_left_out(method):
    """
    A request without a body is one.
    """
    async with receiving() as receiver:
        answer = await a_client().request(method, receiver.url(), headers={})

    assert (200, [method]) == (answer.status, [request.method for request in receiver.requests])


# Addresses


async def test_a_name_that_leads_inside_is_refused_without_a_byte():
    """
    B30: given a name with an inner address, when it is called, then nobody is connected to.
    """
    async with receiving(host=INNER) as inner:
        with pytest.raises(Refused, match=rf"^{HOOKS} leads to an address that is not public"):
            await post(a_client([INNER]), inner.url(host=HOOKS))

    assert 0 == inner.connections


async def test_a_name_that_changes_between_check_and_connect_gains_nothing(monkeypatch):
    """
    B30: given a name that leads inside when asked a second time, when it is called, then it was
    asked for once, and the connection went to the answer that was checked.
    """
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **_: pytest.fail(f"asked for {args}"))
    names = Names({HOOKS: (["127.0.0.1"], [INNER])})
    client = GuardedClient(ADMITTED, resolve=names)
    async with receiving() as receiver:
        assert 200 == (await post(client, receiver.url(host=HOOKS))).status
        assert [HOOKS] == names.asked

        with pytest.raises(Refused):
            await post(client, receiver.url(host=HOOKS))

    assert ([HOOKS, HOOKS], 1) == (names.asked, receiver.connections)


@pytest.mark.parametrize(
    "order", [[INNER, "127.0.0.1"], ["127.0.0.1", INNER], ["::ffff:127.0.0.2", "127.0.0.1"]]
)
async def test_of_several_addresses_only_admitted_ones_are_tried(order):
    """
    B30: given a name with addresses inside and outside, then the inner ones are left out.
    """
    async with receiving() as receiver:
        answer = await post(a_client(order), receiver.url(host=HOOKS))

    assert (200, 1) == (answer.status, receiver.connections)


async def test_the_next_address_is_tried_when_one_does_not_answer():
    """
    Given a name whose first address takes no connection, when it is called, then the next one is.
    """
    egress = Egress.parse("127.0.0.0/8")
    async with receiving() as receiver:
        answer = await post(a_client(["127.0.0.3", "127.0.0.1"], egress=egress), receiver.url(host=HOOKS))

    assert 200 == answer.status


async def test_an_admitted_name_may_lead_inside():
    """
    B30: given a name that the operator admits, when it is called, then it may lead wherever it does.
    """
    async with receiving() as receiver:
        answer = await post(a_client(egress=Egress.parse(HOOKS)), receiver.url(host=HOOKS))

    assert 200 == answer.status


@pytest.mark.parametrize("url", ["http://2130706433:{}/", "http://0x7f.1:{}/", "http://localhost.:{}/"])
async def test_nobody_is_asked_about_an_odd_spelling(url):
    """
    B30: what is refused by its spelling is refused before a resolver could make something of it.
    """
    names = Names({})
    client = GuardedClient(Egress.parse("127.0.0.0/8,localhost"), resolve=names)
    async with receiving() as receiver:
        with pytest.raises(Refused):
            await post(client, url.format(receiver.port))

    assert ([], 0) == (names.asked, receiver.connections)


@pytest.mark.parametrize("found", [[], None])
async def test_a_name_that_is_not_known_may_be_one_day(found):
    """
    A name without an address is a fault of the network, worth another attempt.
    """
    client = a_client(found) if found is not None else GuardedClient(ADMITTED, resolve=Names({}))

    with pytest.raises(Failed, match=rf"^{HOOKS} cannot be resolved$"):
        await post(client, f"http://{HOOKS}/")


async def test_the_systems_resolver_knows_its_own_host():
    """
    Without a resolver of its own, a client asks the system.
    """
    found = await SystemResolver()("localhost", 80)

    assert set(found) <= {"127.0.0.1", "::1"}
    assert len(found) == len(set(found)) > 0


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status):
    """
    B30: given a public host that answers with a redirect inside, when it is called, then the inner
    address hears nothing and the outcome is a permanent failure that says so.
    """
    async with (
        receiving(host=INNER) as inner,
        receiving(answers(status, b"", {"Location": inner.url()})) as receiver,
    ):
        result = classify(await post(a_client(), receiver.url(host=HOOKS)), NOW)

    assert (0, 1) == (inner.connections, receiver.connections)
    assert (False, False) == (result.success, result.retryable)
    assert "redirects are not followed" in result.error
    assert INNER not in result.error


@pytest.mark.skipif(not IPV6, reason="this host has no IPv6 loopback")
async def test_an_ipv6_address_is_called_in_brackets():
    """
    Given an admitted IPv6 address, when it is called, then the Host header is written as in the URL.
    """
    async with receiving(host="::1") as receiver:
        answer = await post(GuardedClient(Egress.parse("::1")), receiver.url(host="[::1]"))

    assert 200 == answer.status
    assert f"[::1]:{receiver.port}" == receiver.requests[0].headers["host"]


# Time and size


@pytest.mark.parametrize(
    "behaviour",
    [
        hangs(),
        hangs(b"HTTP/1.1 200 OK\r\nContent-Le"),
        hangs(head(200, {"Content-Length": "10"})),
        trickles(b"", LIMIT / 20),
        trickles(b"HTTP/1.1 200 OK\r\nX-Long: ", LIMIT / 20),
        trickles(head(200, {"Content-Length": "1000"}), LIMIT / 20),
        trickles(head(200, {}), LIMIT / 20),
    ],
    ids=["silence", "half a head", "no body", "no HTTP", "endless head", "slow body", "endless body"],
)
async def test_one_limit_holds_for_the_whole_call(behaviour):
    """
    B03: given a receiver that never comes to an end, when it is called, then the call ends at its
    limit, however lively the other side is.
    """
    async with receiving(behaviour) as receiver:
        begun = time.monotonic()
        with pytest.raises(Failed, match=rf"^{HOOKS}:\d+ did not answer within 0\.2 s$"):
            await post(a_client(), receiver.url(host=HOOKS), LIMIT)
        took = time.monotonic() - begun

    assert LIMIT <= took < LIMIT + 1


async def test_looking_up_the_name_counts():
    """
    Given a resolver that does not answer, when a name is called, then the call ends at its limit.
    """

    async def asleep(host, port):
        await asyncio.Event().wait()

    with pytest.raises(Failed, match=r"did not answer within 0\.2 s"):
        await post(GuardedClient(ADMITTED, resolve=asleep), f"http://{HOOKS}/", LIMIT)


async def test_agreeing_on_tls_counts_and_leaves_nothing_open():
    """
    Given a receiver that never speaks TLS, when it is called by https, then the call ends at its
    limit and its connection is closed.
    """
    async with receiving(hangs()) as receiver:
        url = receiver.url(host=HOOKS).replace("http:", "https:")
        with pytest.raises(Failed, match=r"did not answer within 0\.2 s"):
            await post(a_client(), url, LIMIT)
        gc.collect()  # a socket left open would warn, and warnings are errors

    assert 1 == receiver.connections


async def test_the_clients_own_limit_is_the_most():
    """
    A caller may ask for less time than the client gives, not for more.
    """
    async with receiving(hangs()) as receiver:
        with pytest.raises(Failed, match=r"within 0\.2 s"):
            await post(a_client(seconds=LIMIT), receiver.url(), 60)
        with pytest.raises(Failed, match=r"within 0\.2 s"):
            await a_client(seconds=LIMIT).request("GET", receiver.url(), headers={})


@pytest.mark.parametrize(
    ("size", "read"),
    [(0, 0), (1, 1), (65_535, 65_535), (65_536, 65_536), (65_537, 65_536), (1_000_000, 65_536)],
)
async def test_only_the_start_of_a_body_is_read(size, read):
    """
    64 KiB are read of an answer, not a byte more is kept.
    """
    async with receiving(answers(200, b"x" * size)) as receiver:
        answer = await post(a_client(), receiver.url())

    assert b"x" * read == answer.body


async def test_a_flood_is_cut_off():
    """
    Given a receiver that never stops sending, when it is called, then the call ends at once, with the
    start of it.
    """
    async with receiving(floods(head(200, {"Content-Length": str(10**15)}))) as receiver:
        answer = await post(a_client(), receiver.url(), 5)

    assert (200, 65_536) == (answer.status, len(answer.body))


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [
        (resets(), "broke the connection before it had answered"),
        (says(b""), "broke off, or did not answer in HTTP"),
        (says(b"SSH-2.0-s3cr3t\r\n\r\n"), "broke off, or did not answer in HTTP"),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf"), "broke off, or did not answer in HTTP"),
        (floods(b"HTTP/1.1 200 OK\r\nX-Long: "), "broke off, or did not answer in HTTP"),
    ],
    ids=["reset", "nothing", "no HTTP", "half a body", "endless head"],
)
async def test_what_is_no_answer_is_told_in_our_words(behaviour, told):
    """
    B26, B30: given a receiver that does not answer properly, when it is called, then that is worth
    another attempt, and nothing of what it said is repeated.
    """
    async with receiving(behaviour) as receiver:
        with pytest.raises(Failed) as failed:
            await post(a_client(), receiver.url(host=HOOKS))

    assert f"{HOOKS}:{receiver.port} {told}" == str(failed.value)
    assert failed.value.__suppress_context__


async def test_a_closed_port_cannot_be_reached():
    """
    B26: nobody listening is a fault of the network.
    """
    async with receiving() as receiver:
        url = receiver.url(host=HOOKS)

    with pytest.raises(Failed, match=rf"^{HOOKS} cannot be reached$"):
        await post(a_client(), url)


@pytest.mark.parametrize("headers", [{"X-A": "a\r\nX-B: b"}, {"X-A": "\ud800"}, {"bad name": "x"}])
async def test_a_header_cannot_smuggle_another(headers):
    """
    Given a header that would break the request, when it is sent, then it is not.
    """
    async with receiving() as receiver:
        with pytest.raises(Refused, match="cannot be written as HTTP"):
            await post(a_client(), receiver.url(), **headers)

    assert [] == receiver.requests


# What is kept, and what is taken from elsewhere


async def test_nothing_is_kept_between_two_calls():
    """
    Given an answer that sets a cookie and would keep its connection, when the same host is called
    again, then it is asked for anew, on a new connection, without the cookie.
    """
    names = Names({HOOKS: (["127.0.0.1"],)})
    client = GuardedClient(ADMITTED, resolve=names)
    stays = answers(200, b"", {"Set-Cookie": "a=b; Path=/", "Connection": "keep-alive"})
    async with receiving(stays) as receiver:
        for _ in range(2):
            await post(client, receiver.url(host=HOOKS))

    assert (2, [HOOKS, HOOKS]) == (receiver.connections, names.asked)
    assert "cookie" not in receiver.requests[1].headers


async def test_the_environment_has_no_say(monkeypatch, tmp_path):
    """
    Given a proxy and credentials in the environment, when a host is called, then it is called
    directly and without them.
    """
    (tmp_path / ".netrc").write_text(f"machine {HOOKS} login ann password s3cr3t\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    async with receiving() as receiver:
        answer = await post(a_client(), receiver.url(host=HOOKS))

    assert 200 == answer.status
    assert "authorization" not in receiver.requests[0].headers


async def test_connections_are_bounded():
    """
    Given as many calls as connections, when one more is made, then it waits for its turn, within its
    time, and is made once one of them has ended.
    """
    client = a_client(connections=2)
    async with receiving(hangs(), hangs(), answers()) as receiver:
        busy = [asyncio.ensure_future(post(client, receiver.url(), 60)) for _ in range(2)]
        await until(lambda: receiver.connections == 2)
        with pytest.raises(Failed, match="did not answer"):
            await post(client, receiver.url(), LIMIT)
        assert 2 == receiver.connections

        waiting = asyncio.ensure_future(post(client, receiver.url(), 5))
        await asyncio.sleep(0)
        busy[0].cancel()
        assert 200 == (await waiting).status
        busy[1].cancel()
        await asyncio.wait(busy)


def test_one_client_serves_one_event_loop_after_another():
    """
    Given a client that was used in a loop that has ended, when another loop uses it, then it works.
    """
    client = a_client()

    async def call():
        async with receiving() as receiver:
            return (await post(client, receiver.url(host=HOOKS))).status

    assert [200, 200] == [asyncio.run(call()), asyncio.run(call())]


async def test_each_event_loop_has_connections_of_its_own():
    """
    Given one loop whose only connection is taken, when another thread's loop uses the same client,
    then it does not wait for it.
    """
    client = a_client(connections=1)
    async with receiving(hangs(), answers()) as receiver:
        busy = asyncio.ensure_future(post(client, receiver.url(), 60))
        await until(lambda: receiver.requests)
        answer = await asyncio.to_thread(lambda: asyncio.run(post(client, receiver.url(), 5)))
        busy.cancel()
        await asyncio.wait({busy})

    assert 200 == answer.status


async def test_a_call_that_is_given_up_leaves_nothing_open():
    """
    Given a call in flight, when it is cancelled, then its connection is closed.
    """
    async with receiving(hangs()) as receiver:
        call = asyncio.ensure_future(post(a_client(), receiver.url(), 60))
        await until(lambda: receiver.requests)
        call.cancel()
        await asyncio.wait({call})
        gc.collect()  # a socket left open would warn, and warnings are errors

    assert call.cancelled()


async def test_no_log_shows_the_path(caplog):
    """
    Given logs at their most talkative, when a URL with secrets is called, then they are in none.
    """
    caplog.set_level(logging.DEBUG)
    async with receiving(answers(), answers(404)) as receiver:
        for _ in range(2):
            await post(a_client(), receiver.url("/s3cr3t/t0k3n?k=v4lu3", HOOKS))

    assert not [word for word in ("s3cr3t", "t0k3n", "v4lu3") if word in caplog.text]


async def test_what_the_other_side_repeats_is_known():
    """
    Given a receiver that repeats what it was sent, when its answer is judged, then the URL's and the
    header's secrets are blotted out.
    """
    echo = b"no /hook/s3cr3t?k=v4lu3 for Bearer t0k3n-1"
    async with receiving(answers(404, echo)) as receiver:
        url = receiver.url("/hook/s3cr3t?k=v4lu3", HOOKS)
        result = classify(await post(a_client(), url, Authorization="Bearer t0k3n-1"), NOW)

    assert f"{HOOKS}:{receiver.port} answered 404 Not Found: no ... for Bearer ..." == result.error


# TLS


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def tls(authority):
    """
    What the receiver shows, a certificate for the name, and what the client trusts.
    """
    shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(HOOKS).configure_cert(shown)
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    return shown, trusted


async def test_tls_is_for_the_name_and_not_for_the_address(tls):
    """
    Given a certificate for the name, when the name is called, then the address that was checked is
    connected to, asked for the name, and held to it.
    """
    shown, trusted = tls
    async with receiving(tls=shown) as receiver:
        answer = await post(a_client(tls=trusted), receiver.url(host=HOOKS))

    assert (200, [HOOKS]) == (answer.status, receiver.names)
    assert f"{HOOKS}:{receiver.port}" == receiver.requests[0].headers["host"]


async def test_a_certificate_for_another_name_is_not_trusted(tls):
    """
    Given a certificate for another name, when a name is called, then nothing is sent.
    """
    shown, trusted = tls
    other = "other.example.org"
    async with receiving(tls=shown) as receiver:
        with pytest.raises(Failed, match=rf"^{other}:\d+ has no certificate that can be trusted: "):
            await post(a_client(host=other, tls=trusted), receiver.url(host=other))

    assert [] == receiver.requests


async def test_an_authority_that_is_not_known_is_not_trusted(tls):
    """
    Without anything else said, the system's authorities are the ones that are trusted.
    """
    async with receiving(tls=tls[0]) as receiver:
        with pytest.raises(Failed, match="has no certificate that can be trusted"):
            await post(a_client(), receiver.url(host=HOOKS))

    assert [] == receiver.requests


async def test_what_is_not_tls_is_told(tls):
    """
    Given a receiver that answers TLS with something else, when it is called, then it says so.
    """
    async with receiving() as receiver:
        receiver_url = receiver.url(host=HOOKS)

    async def shout(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", receiver.port)
    async with server:
        with pytest.raises(Failed, match="does not agree on TLS"):
            await post(a_client(tls=tls[1]), receiver_url.replace("http:", "https:"))
