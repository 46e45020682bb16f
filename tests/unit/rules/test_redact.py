import pytest

from uns.core.rules.redact import shown


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("https://hooks.example.org/services/T1/B2/secret", "https://hooks.example.org/..."),
        ("https://ann:secret@example.org:8443/?token=secret#secret", "https://example.org/..."),
        (" HTTPS://example.org/secret", " HTTPS://example.org/..."),
        ("http://[::1/secret", "http://.../..."),
        ("slack://tokenA/tokenB", "..."),
        ("#ops", "#ops"),
        ("ann@example.org", "ann@example.org"),
    ],
)
def test_of_a_url_only_the_host_is_shown(text, left):
    """
    User, path and query are hidden, and where the scheme puts a token first, the host too.
    """
    assert shown(text) == left


def test_a_target_is_copied_through_and_through():
    """
    URLs are hidden however deep they stand; everything else comes out as it went in.
    """
    target = {"urls": ["https://a.example/x", {"b": "https://b.example/y"}], "rate": {"burst": 1}, "on": True}

    assert shown(target) == {
        "urls": ["https://a.example/...", {"b": "https://b.example/..."}],
        "rate": {"burst": 1},
        "on": True,
    }
    assert target["urls"][0] == "https://a.example/x"
