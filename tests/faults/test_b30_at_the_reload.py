"""
B30, when policies come into force: a target inside the network is refused with its file and line, and
what was in force before stays.
"""

import json

import pytest

from kit.builders import a_request
from kit.runtimes import PRINCIPAL, a_document, policy_folder
from uns import Rejected, SimpleAdapterRegistry
from uns.adapters.channels.webhook import WebhookChannel
from uns.adapters.egress import Egress, GuardedClient
from uns.adapters.sources import SystemClock

INSIDE = [
    "http://169.254.169.254/latest",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://user:pw@10.0.0.1/",
    "http://10.0.0.1:8080/hook",
]
OUTSIDE = ["https://hooks.example.org/x", "http://93.184.215.14/"]


def a_webhook(admits="", **environ):
    return WebhookChannel(GuardedClient(Egress.parse(admits)), SystemClock(), environ=environ)


def to(target):
    return a_document(channels={"primary": ["WEBHOOK"]}, targets={"WEBHOOK": target})


@pytest.fixture
def reload(open_runtime, tmp_path):
    """
    Puts one policy with this target in force, over one that is.
    """
    runtime = open_runtime({"WEBHOOK": a_webhook(), "PAGER": object()})
    runtime.reload_policies(policy_folder(tmp_path / "before", a_document()), allow_gaps=True)

    def reload(target, **webhook):
        if webhook:
            runtime._adapters = SimpleAdapterRegistry({"WEBHOOK": a_webhook(**webhook)})
        folder = policy_folder(tmp_path / "after", to(target))
        return runtime, folder, lambda: runtime.reload_policies(folder, allow_gaps=True)

    return reload


@pytest.mark.parametrize("inside", INSIDE)
def test_a_target_inside_the_network_does_not_come_into_force(reload, inside):
    """
    B30: given a policy with such a URL, when its folder is put in force, then it is refused by file,
    line and field, nothing of the URL's credentials is told, and the policies before stay in force.
    """
    runtime, folder, put_in_force = reload({"url": inside})
    with pytest.raises(Rejected, match=r"ops\.yaml, line 1: targets\.WEBHOOK\.url: ") as refused:
        put_in_force()

    assert ("targets.WEBHOOK.url", 422) == (refused.value.path, refused.value.status)
    assert "user:pw" not in str(refused.value)
    assert ("PAGER",) == runtime.simulate(a_request(), principal=PRINCIPAL).channels
    assert json.loads((folder / "ops.yaml").read_text())["targets"]["WEBHOOK"]["url"] == inside


def test_a_setting_counts_where_it_is_set(reload):
    """
    Given a URL in a setting, then it is checked by the processes that have it, and by no others.
    """
    _, _, put_in_force = reload(
        {"url_env": "UNS_TARGET_HOOK"}, admits="", UNS_TARGET_HOOK="http://10.0.0.1/?t=secret"
    )
    with pytest.raises(Rejected, match=r"targets\.WEBHOOK\.url_env: 10\.0\.0\.1 leads to") as refused:
        put_in_force()

    assert "secret" not in str(refused.value)


def test_a_setting_that_is_set_elsewhere_is_no_fault(reload):
    """
    A process without channel secrets puts policies in force too.
    """
    _, _, put_in_force = reload({"url_env": "UNS_TARGET_HOOK"})

    assert put_in_force().changed


@pytest.mark.parametrize("outside", OUTSIDE)
def test_a_public_target_comes_into_force(reload, outside):
    """
    A name is not looked up: its addresses are checked at each call.
    """
    _, _, put_in_force = reload({"url": outside})

    assert put_in_force().changed


def test_the_operator_may_admit_it(reload):
    """
    One setting admits private targets, here as at the call.
    """
    _, _, put_in_force = reload({"url": "http://10.0.0.1/"}, admits="10.0.0.0/8")

    assert put_in_force().changed
