"""
``Runtime.reload_policies``: a folder is put in force as the whole set, or nothing changes.
"""

import os

import pytest

from kit.builders import a_request
from kit.children import reloads
from kit.processes import result_of
from kit.runtimes import PRINCIPAL, a_document, policy_folder
from uns import Conflict, NotFound, Rejected


@pytest.fixture
def folder(tmp_path):
    """
    A folder with one policy that takes everything to LOG.
    """
    return policy_folder(tmp_path / "new", a_document("new", channels={"primary": ["LOG"]}))


def in_force(runtime):
    """
    The policy that covers a request, and the revision of the set.
    """
    told = runtime.simulate(a_request(), principal=PRINCIPAL)
    return told.policy_id, told.revision


@pytest.mark.parametrize("form", [str, os.fspath, lambda folder: folder])
def test_a_folder_takes_the_place_of_the_set(form, runtime, folder):
    """
    Given a folder, as text or path, when it is loaded, then its policies are the set in force, what
    it leaves out is retired, and the same content again changes nothing.
    """
    first, again = (runtime.reload_policies(form(folder), actor="ann") for _ in range(2))

    assert (True, ("new",), ("ops",), 3) == (first.changed, first.activated, first.retired, first.revision)
    assert (False, (), (), 3) == (again.changed, again.activated, again.retired, again.revision)
    assert ("new", 3) == in_force(runtime)


def test_other_processes_accept_by_it_at_once(runtime, open_runtime, folder):
    """
    Given two runtimes on one database, when one of them loads a folder, then the other's next
    acceptance is by the new policies.
    """
    other = open_runtime()
    assert ("ops", 2) == in_force(other)
    runtime.reload_policies(folder)

    id = other.accept(a_request(), principal=PRINCIPAL).notification_id
    assert "new" == other.get(id)["policy_id"]


def missing(folder):
    (folder / "new.yaml").unlink()
    folder.rmdir()


def a_file(folder):
    missing(folder)
    folder.touch()


def empty(folder):
    (folder / "new.yaml").unlink()


def written(text):
    def write(folder):
        (folder / "new.yaml").write_text(text)

    return write


def a_folder_inside(folder):
    (folder / "other.yaml").mkdir()


def a_pipe(folder):
    os.mkfifo(folder / "other.yaml")


def a_way_out(folder):
    (folder / "other.yaml").symlink_to("/etc/hostname")


WRONG = {
    "missing": (missing, NotFound, "not_found", "there is no policy folder"),
    "a file": (a_file, NotFound, "not_found", "there is no policy folder"),
    "empty": (empty, Rejected, "validation_error", "there is no policy here"),
    "an empty file": (written(""), Rejected, "validation_error", "new.yaml"),
    "no YAML": (written("policy_id: [\n"), Rejected, "validation_error", "new.yaml, line 2"),
    "a key twice": (
        written("policy_id: a\npolicy_id: b\n"),
        Rejected,
        "validation_error",
        "new.yaml, line 2",
    ),
    "unknown key": (written("policy_id: a\nchanels: {}\n"), Rejected, "validation_error", "line 2: chanels"),
    "missing key": (written("policy_id: a\nstatus: ACTIVE\n"), Rejected, "validation_error", "is missing"),
    "a folder inside": (a_folder_inside, Rejected, "validation_error", "other.yaml is not a regular file"),
    "a pipe": (a_pipe, Rejected, "validation_error", "other.yaml is not a regular file"),
    "a way out": (a_way_out, Rejected, "validation_error", "other.yaml leads out of the folder"),
}


@pytest.mark.parametrize(("spoil", "error", "code", "told"), WRONG.values(), ids=WRONG)
def test_a_wrong_folder_changes_nothing(spoil, error, code, told, runtime, folder):
    """
    Given a folder that is missing, empty or has a wrong file in it, when it is loaded, then the
    error says what is wrong and where, and the set in force stays.
    """
    spoil(folder)
    with pytest.raises(error, match=told) as refused:
        runtime.reload_policies(folder)

    assert code == refused.value.code
    assert ("ops", 2) == in_force(runtime)
    assert runtime.accept(a_request(), principal=PRINCIPAL).status == "PENDING"


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_may_not_be_read_changes_nothing(what, url, runtime, folder, tmp_path):
    """
    Given a policy file, or the folder, that this user may not read, when it is loaded, then the
    error names it, and the set in force stays.
    """
    for parent in tmp_path.parents:
        if parent.name.startswith(("pytest-", "popen-")):  # pytest's own, closed to the user of the child
            parent.chmod(0o755)
    for path in (tmp_path, *tmp_path.glob("uns.db*")):
        path.chmod(0o777)
    hidden = folder / "new.yaml" if what == "file" else folder
    hidden.chmod(0)
    code, told = result_of(reloads, url, str(folder))
    hidden.chmod(0o755)

    assert ("validation_error", True) == (code, hidden.name in told)
    assert ("ops", 2) == in_force(runtime)


WRONG_DOCUMENTS = [
    ({"channels": {"primary": ["FAX"]}}, "FAX"),
    ({"channels": {"primary": []}}, "channels.primary"),
    ({"max_attempts": 0}, "max_attempts"),
    ({"max_attempts": 21}, "max_attempts"),
    ({"dedup_window_seconds": -1}, "dedup_window_seconds"),
    ({"require_ack": "yes"}, "require_ack"),
    ({"status": "ON"}, "status"),
    ({"require_ack": True, "ack_timeout_minutes": 0}, "ack_timeout_minutes"),
]


@pytest.mark.parametrize(("settings", "told"), WRONG_DOCUMENTS)
def test_a_wrong_policy_changes_nothing(settings, told, runtime, tmp_path):
    """
    Given a folder with one good policy and one that may not be, when it is loaded, then the error
    names file and key, and neither of the two is in force.
    """
    good = a_document("good", channels={"primary": ["LOG"]})
    bad = a_document("bad", notification_type="b.*", channels={"primary": ["LOG"]}) | settings
    with pytest.raises(ValueError, match=told) as refused:
        runtime.reload_policies(policy_folder(tmp_path / "wrong", good, bad))

    assert "bad.yaml, line " in str(refused.value)
    assert ("ops", 2) == in_force(runtime)


def test_a_type_in_use_keeps_a_policy(runtime, tmp_path):
    """
    Given a type that was accepted lately, when a folder leaves it without a policy, then that is a
    conflict, unless gaps are allowed.
    """
    runtime.accept(a_request(), principal=PRINCIPAL)
    narrow = policy_folder(tmp_path / "narrow", a_document(notification_type="other"))
    with pytest.raises(Conflict) as refused:
        runtime.reload_policies(narrow)
    assert "policy_gap" == refused.value.code
    assert ("ops", 2) == in_force(runtime)

    assert runtime.reload_policies(narrow, allow_gaps=True).changed


@pytest.mark.parametrize("actor", [None, "", " ", "a" * 256])
def test_whoever_reloads_has_a_name(actor, runtime, folder):
    """
    Given no actor, or a blank or overlong one, when a folder is loaded in its name, then it is
    refused and the set in force stays.
    """
    with pytest.raises(ValueError, match=r"^actor ") as refused:
        runtime.reload_policies(folder, actor=actor)

    assert ("validation_error", "actor") == (refused.value.code, refused.value.path)
    assert ("ops", 2) == in_force(runtime)
