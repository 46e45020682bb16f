"""
``uns init``: the database without a service.
"""

import pytest

from kit.runtimes import a_document, policy_folder
from uns.entrypoints.cli.exits import Exit


@pytest.fixture
def disks(tmp_path):
    """
    A folder whose one policy is for ``disk.*``.
    """
    narrow = a_document("disks", notification_type="disk.*", channels={"primary": ["LOG"]})
    return str(policy_folder(tmp_path / "disks", narrow))


def test_a_database_is_made_once(uns, tmp_path):
    """
    When a database is made twice, then the second time nothing is to be done.
    """
    first, second = uns("init", "--json"), uns("init", "--json")

    assert (Exit.DONE, Exit.DONE) == (first.status, second.status)
    assert {"database": str(tmp_path / "uns.db"), "policy_revision": None} == first.json == second.json


def test_policies_come_into_force_once(uns, disks):
    """
    Given a folder of policies, when it is loaded twice, then there is one new revision.
    """
    first, second = (uns("init", "--json", UNS_POLICY_DIR=disks) for _ in range(2))

    assert first.json["policy_revision"] == second.json["policy_revision"] > 1


@pytest.mark.parametrize("command", [("init",), ("serve", "--port=0")])
def test_policies_that_leave_a_gap_are_refused_with_the_remedy(uns, disks, command):
    """
    Given traffic that a folder does not cover, when it is to come into force, then it is refused.
    """
    uns("init")
    uns("send", "--type=fan.loud", "--title=t", "--message=m")
    ended = uns(*command, UNS_POLICY_DIR=disks)

    assert Exit.FAILED == ended.status
    assert ended.err.startswith("uns: UNS_POLICY_DIR: ")
    assert ended.err.endswith("fan.loud from cli (`uns init --allow-gaps` puts them in force all the same)\n")


def test_a_gap_that_is_meant_is_allowed(uns, disks):
    """
    When the operator says so, then the folder comes into force all the same.
    """
    uns("init")
    uns("send", "--type=fan.loud", "--title=t", "--message=m")
    ended = uns("init", "--allow-gaps", UNS_POLICY_DIR=disks)
    refused = uns("send", "--type=fan.loud", "--title=t", "--message=m")

    assert (Exit.DONE, Exit.REFUSED) == (ended.status, refused.status)
