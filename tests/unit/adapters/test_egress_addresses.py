from ipaddress import ip_address

import pytest

from uns.adapters.egress import Egress, is_public
from uns.adapters.egress.addresses import is_host_name
from uns.ports.errors import Rejected

PUBLIC = [
    *("1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255"),
    *("128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0"),
    *("192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255"),
    *("2606:4700:4700::1111", "2001:200::1", "2a00::1", "3ffe:ffff::1"),
    *("64:ff9b::1.1.1.1", "64:ff9b::808:808"),
]
NOT_PUBLIC = [
    *("0.0.0.0", "0.1.2.3", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255"),
    *("127.0.0.1", "127.255.255.255", "169.254.0.0", "169.254.169.254", "169.254.255.255"),
    *("172.16.0.0", "172.31.255.255", "192.0.0.1", "192.0.0.255", "192.0.2.1", "192.88.99.1"),
    *("192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1"),
    *("224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.254", "255.255.255.255"),
    *("::", "::1", "::127.0.0.1", "::1.1.1.1", "100::1", "1fff:ffff::1", "4000::1"),
    *("fc00::1", "fdff::1", "fe80::1", "febf::1", "fec0::1", "ff02::1", "ff0e::1"),
    *("2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:1ff::1", "2001:db8::1", "3fff::1"),
]
WRAPPED = [
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:1.1.1.1"),
    *("64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b:1::1.1.1.1"),
    *("2002:7f00:1::", "2002:a00:1::1", "2002:101:101::"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_public(address):
    """
    What anybody may reach passes, up to the edges of what is set apart.
    """
    assert is_public(ip_address(address))


@pytest.mark.parametrize("address", [*NOT_PUBLIC, *WRAPPED])
def test_everything_else_is_not(address):
    """
    B30: loopback, private, link-local, shared, multicast, reserved and documentation addresses
    are inner ones, edges included, and so is IPv4 that is wrapped into IPv6.
    """
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    ("setting", "host", "address", "admitted"),
    [
        ("", "10.0.0.1", "10.0.0.1", False),
        ("", "hooks.example.org", "1.1.1.1", True),
        ("10.0.0.0/8", "10.0.0.1", "10.0.0.1", True),
        ("10.0.0.0/8", "hooks.internal", "10.255.255.255", True),
        ("10.0.0.0/8", "hooks.internal", "11.0.0.0", True),
        ("10.0.0.0/8", "hooks.internal", "192.168.0.1", False),
        ("10.0.0.0/8", "hooks.internal", "::ffff:10.0.0.1", False),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", "127.0.0.2", False),
        ("127.0.0.1", "localhost", "127.0.0.1", True),
        ("127.0.0.1", "localhost", "::1", False),
        ("::1", "localhost", "::1", True),
        ("fd00::/8", "hooks.internal", "fd12::1", True),
        ("localhost", "localhost", "127.0.0.1", True),
        ("localhost", "127.0.0.1", "127.0.0.1", False),
        ("LocalHost", "localhost", "127.0.0.1", True),
        ("hooks.internal", "hooks.internal", "169.254.169.254", True),
        ("hooks.internal", "a.hooks.internal", "10.0.0.1", False),
        (" 10.0.0.0/8 ,, localhost, ", "localhost", "127.0.0.1", True),
    ],
)
def test_the_operator_admits_networks_and_names(setting, host, address, admitted):
    """
    B30: one setting admits networks and single addresses whoever leads there, and names wherever
    they lead; nothing is admitted by being like what is listed.
    """
    assert admitted is Egress.parse(setting).admits(host, ip_address(address))


@pytest.mark.parametrize(
    "setting",
    [
        *("10.0.0.1/8", "10.0.0.0/33", "10.0.0", "256.0.0.1", "0x7f.1", "2130706433", "010.0.0.1"),
        *("::g", "[::1]", "fe80::1%eth0/64", "*", "*.internal", ".internal", "internal.", "a..b"),
        *("localhost:8080", "http://localhost", "localhost/x", "a b", "-a", "a-", "bücher.internal"),
        *("a" * 64, "10.0.0.0/8;localhost", "user@localhost", "1e3.5"),
    ],
)
def test_a_wrong_entry_names_the_setting(setting):
    """
    Given an entry that is neither a network nor a name, when the setting is read, then it is
    refused as a whole, by name.
    """
    with pytest.raises(Rejected, match=r"^UNS_EGRESS_ALLOW must hold networks") as refused:
        Egress.parse(f"10.0.0.0/8,{setting}")

    assert "UNS_EGRESS_ALLOW" == refused.value.path


@pytest.mark.parametrize(
    "host", ["a", "localhost", "a_b.c-d.e2", "xn--bcher-kva.example", "1and1.com", "0x7g"]
)
def test_a_name_is_a_name(host):
    """
    Letters, digits, hyphens and underscores in labels; the last one is no number.
    """
    assert is_host_name(host)


@pytest.mark.parametrize(
    "host",
    [
        *("", ".", "a.", ".a", "a..b", "A", "a b", "a\n", "a%20b", "ä", "a:b", "-a", "a-", "a" * 64),
        *("1", "127.1", "0", "017700000001", "0x7f000001", "0x", "a.1", "a.0x1f", "1.2.3.4"),
        ".".join(["a" * 60] * 5),
    ],
)
def test_what_could_be_read_as_something_else_is_no_name(host):
    """
    B30: numbers in every base that resolvers read as addresses, and names in an odd form.
    """
    assert not is_host_name(host)
