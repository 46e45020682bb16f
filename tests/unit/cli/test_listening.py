"""
The socket of a service.
"""

import socket

import pytest

from uns.entrypoints.cli.exits import Failed
from uns.entrypoints.cli.listening import listening, url_of


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "http://127.0.0.1:{}"),
        ("0.0.0.0", "http://127.0.0.1:{}"),
        ("::1", "http://[::1]:{}"),
        ("::", "http://[::1]:{}"),
    ],
)
def test_whoever_connects_waits_to_be_let_in(host, shown):
    """
    Given a socket, when somebody connects before anybody serves, then they are connected, and wait.
    """
    if ":" in host and not _has_ipv6():
        pytest.skip("no IPv6 here")
    with listening(host, 0) as listener:
        port = listener.getsockname()[1]
        url = url_of(listener)
        with socket.create_connection((url.split("//")[1].rpartition(":")[0].strip("[]"), port)):
            waiting, _ = listener.accept()
            waiting.close()

    assert shown.format(port) == url


def test_a_port_is_taken_while_somebody_listens_and_free_afterwards():
    """
    A port can be used again as soon as its service is gone, even with connections that linger.
    """
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = first.accept()
        with pytest.raises(Failed, match=f"port {port} is taken"):
            listening("127.0.0.1", port)
    accepted.close()  # the side that closes first is the one whose port lingers
    client.close()
    listening("127.0.0.1", port).close()


def _has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True
