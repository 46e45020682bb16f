import pytest

from uns.adapters.egress import Egress, Refused, destination

NOTHING = Egress()
EVERYTHING = Egress.parse("0.0.0.0/0,::/0,localhost")

ODD = [
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0x7f.0.0.1/",
    "http://017700000001/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.1./",
    "http://localhost./",
    "http://hooks.example.org./",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::FFFF:7F00:0001]/",
    "http://[fe80::1%25eth0]/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1%00.example.org/",
    "http://exa mple.org/",
    "http://\uff11\uff12\uff17.0.0.1/",
    "http://\u24dbocalhost/",
    "http://a..b/",
    "http://-a/",
    "http://*/",
    "http://" + "a" * 64 + ".example.org/",
]


@pytest.mark.parametrize("url", ODD)
def test_an_odd_spelling_is_refused_even_of_what_is_admitted(url):
    """
    B30: an address in disguise is not looked through, it is refused, whatever it stands for.
    """
    with pytest.raises(Refused):
        destination(url, EVERYTHING)


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "ftp://example.org/", "gopher://example.org/", "javascript:alert(1)"),
        *("//example.org/", "example.org/hook", "", "http", "http:example.org", "http://", "https:///x"),
        *("http:\\\\127.0.0.1/", "http://?x", "http://:80/", "unix:/run/x", "http+unix://x/", "ws://x/"),
    ],
)
def test_only_http_and_https_with_a_host_are_called(url):
    """
    B30: no other scheme, and no URL without a host.
    """
    with pytest.raises(Refused):
        destination(url, EVERYTHING)


@pytest.mark.parametrize("at", ["http://{}.org/", "http://x.org/{}", "http://x.org/?{}", "http://x.org:{}/"])
def test_half_a_character_is_refused_wherever_it_stands(at):
    """
    B30: what cannot be written as a request is no URL.
    """
    with pytest.raises(Refused):
        destination(at.format("\ud800"), EVERYTHING)


@pytest.mark.parametrize(
    "url",
    [
        "http://user:pw@10.0.0.1/",
        "http://user@localhost/",
        "http://@localhost/",
        "http://:@localhost/",
        "http://example.org@localhost/",
        "http://example.org\\@localhost/",
        "http://localhost:80@example.org/",
    ],
)
def test_credentials_before_the_host_are_refused_and_not_repeated(url):
    """
    B30: what stands before an @ is never sent, and not told either.
    """
    with pytest.raises(Refused, match="must not hold credentials") as refused:
        destination(url, EVERYTHING)

    assert "pw" not in str(refused.value)
    assert "user" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("http://localhost:0/", False),
        ("http://localhost:1/", True),
        ("http://localhost:65535/", True),
        ("http://localhost:65536/", False),
        ("http://localhost:/", True),
    ],
)
def test_a_port_is_one_that_there_is(url, taken):
    """
    Ports from 1 to 65535.
    """
    if taken:
        destination(url, NOTHING)
    else:
        with pytest.raises(Refused, match="port must be from 1 to 65535"):
            destination(url, NOTHING)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://10.0.0.1:8080/x",
        "http://169.254.169.254/latest/meta-data/",
        "http://127\u30020\u30020\u30021/",
        "http://0.0.0.0/",
        "https://[::1]/",
        "https://[fd00::1]:8443/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
    ],
)
def test_an_inner_address_is_refused_before_anybody_is_asked(url):
    """
    B30: an address that stands in the URL is judged when the URL is read, scheduling included.
    """
    with pytest.raises(Refused, match="leads to an address that is not public, and UNS_EGRESS_ALLOW"):
        destination(url, NOTHING)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example.org/services/T1/B2/secret?key=secret#secret", "hooks.example.org"),
        ("HTTPS://Hooks.Example.ORG:443/secret", "hooks.example.org"),
        ("http://hooks.example.org:8080", "hooks.example.org:8080"),
        ("https://bücher.example/secret", "xn--bcher-kva.example"),
        ("https://[2606:4700:4700::1111]:8443/secret", "[2606:4700:4700::1111]:8443"),
        ("https://1.1.1.1/secret", "1.1.1.1"),
        ("https://" + ".".join(["a" * 60] * 4) + "/", ".".join(["a" * 60] * 4)),
    ],
)
def test_only_host_and_port_are_shown(url, shown):
    """
    Path, query and fragment may be credentials: a destination shows its host and an unusual port.
    """
    to = destination(url, NOTHING)

    assert shown == to.shown
    assert f"<Destination {shown}>" == repr(to)


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("https://a.example", set()),
        ("https://a.example/", set()),
        ("https://a.example/hook", {"/hook"}),
        ("https://a.example/Zx9-q", {"/Zx9-q", "Zx9-q"}),
        (
            "https://a.example/api/services/T1/s3cr3t",
            {"/api/services/T1/s3cr3t", "/services/T1/s3cr3t", "s3cr3t"},
        ),
        (
            "https://a.example/x?token=s3cr3t&b=words",
            {"/x?token=s3cr3t&b=words", "token=s3cr3t&b=words", "s3cr3t"},
        ),
        (
            "https://a.example/x?k=a%2Fb%3D1",
            {"/x?k=a%2Fb%3D1", "/x?k=a/b=1", "k=a%2Fb%3D1", "k=a/b=1", "a%2Fb%3D1", "a/b=1"},
        ),
        ("https://a.example/" + "z" * 20, {"/" + "z" * 20, "z" * 20}),
    ],
)
def test_what_may_be_secret_is_known(url, hidden):
    """
    Path and query, whole and in parts, as sent and decoded; short plain words are no secrets.
    """
    found = destination(url, NOTHING).hidden

    assert hidden == set(found)
    assert sorted(map(len, found), reverse=True) == [len(part) for part in found]
