"""
Commands over each of the two faces: a database here, a service elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.commands import KEYS, OPERATOR, environ, serving, uns
from kit.runtimes import a_document, policy_folder

__all__ = ["environ", "over", "policies", "service", "uns", "url"]

CLOSED = "http://localhost:9/"
"""Where nothing may be sent: not a public address, and not admitted."""

BROKEN = {
    "notification_type": "broken.*",
    "channels": {"primary": ["WEBHOOK"]},
    "targets": {"WEBHOOK": {"url": CLOSED}},
}


@pytest.fixture(scope="session")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    Everything goes to LOG; ``ask.*`` wants an answer; ``broken.*`` fails for good at once.
    """
    return policy_folder(
        tmp_path_factory.mktemp("cli") / "policies",
        a_document("all", channels={"primary": ["LOG"]}),
        a_document("ask", notification_type="ask.*", channels={"primary": ["LOG"]}, require_ack=True),
        a_document("broken", **BROKEN),
    )


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, policies: Path) -> Iterator[str]:
    """
    The URL of one service for all tests.
    """
    folder = tmp_path_factory.mktemp("service")
    with serving(folder, **KEYS, UNS_POLICY_DIR=str(policies), UNS_SEND_WAIT_SECONDS="20") as (_, url):
        yield url


@pytest.fixture(params=["local", "remote"])
def over(request: pytest.FixtureRequest, environ: pytest.MonkeyPatch, tmp_path: Path, policies: Path) -> str:
    """
    Which face the commands of this test have.
    """
    if request.param == "remote":
        environ.setenv("UNS_URL", request.getfixturevalue("service"))
        environ.setenv("UNS_API_KEY", OPERATOR)
    else:
        environ.setenv("UNS_DATABASE_URL", f"sqlite:///{tmp_path / 'uns.db'}")
        environ.setenv("UNS_POLICY_DIR", str(policies))
        assert request.getfixturevalue("uns")("init").status == 0
    return request.param


@pytest.fixture
def url(environ: pytest.MonkeyPatch, service: str) -> str:
    """
    The service, named in the environment, its key not.
    """
    environ.setenv("UNS_URL", service)
    return service
