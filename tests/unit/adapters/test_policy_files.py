import os
import shutil
import socket
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.policies import a_policy
from uns.adapters.policy_files import FILE_BYTES, FOLDER_BYTES, PolicyFolder, packaged_policies
from uns.core.rules.activation import compose
from uns.core.rules.matching import is_packaged
from uns.ports.errors import NotFound, Rejected
from uns.ports.policy import ChannelPlan, EscalationStep, Match, Overlay, Policy
from uns.ports.vocabulary import AutonomyMode, DeliveryMode, NotificationIntent, PolicyStatus, Priority

LEAST = """\
policy_id: ops
notification_type: "*"
status: ACTIVE
delivery_mode: GUARANTEED
require_ack: false
channels:
  primary: [LOG]
"""

WHOLE = """\
policy_id: ops-alerts
notification_type: system.alert
match: {source: [pay, pay-*]}
status: ACTIVE
intent: OPERATIONAL
delivery_mode: GUARANTEED
priority: NORMAL
require_ack: true
ack_timeout_minutes: 15
dedup_window_seconds: 300
max_attempts: 3
channels:
  primary: [SLACK]
  fallback: [PAGERDUTY]
  require: any
targets:
  SLACK: {channel: "#ops"}
  PAGERDUTY: {routing_key_env: UNS_TARGET_PAGERDUTY_OPS}
autonomy:
  SHADOW: {delivery_mode: BEST_EFFORT, require_ack: false, channels: {primary: [LOG]}}
  PREVIEW: {delivery_mode: BEST_EFFORT, require_ack: false, channels: {primary: [LOG]}}
responders: ["slack:T1:*", "key:local-responder"]
links: true
irreversible:
  require_ack: true
  priority: HIGH
  ack_timeout_minutes: 5
escalation:
  - channels: [PAGERDUTY]
    priority: HIGH
    ack_timeout_minutes: 10
"""


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "policies"
    made.mkdir()
    return made


def load(folder):
    return PolicyFolder(folder).load()


def refusal_of(folder, text, name="ops.yaml"):
    (folder / name).write_text(text)
    with pytest.raises(Rejected) as refusal:
        load(folder)
    return refusal.value


def test_the_documented_policy_is_read_as_it_is_meant(folder):
    """
    Every key of the format arrives in its field, with its type.
    """
    (folder / "ops.yaml").write_text(WHOLE)
    quiet = Overlay(
        delivery_mode=DeliveryMode.BEST_EFFORT, require_ack=False, channels=ChannelPlan(primary=("LOG",))
    )

    (document,) = load(folder)

    assert document.policy == Policy(
        policy_id="ops-alerts",
        notification_type="system.alert",
        match=Match(source=("pay", "pay-*")),
        status=PolicyStatus.ACTIVE,
        intent=NotificationIntent.OPERATIONAL,
        delivery_mode=DeliveryMode.GUARANTEED,
        priority=Priority.NORMAL,
        require_ack=True,
        ack_timeout_minutes=15,
        dedup_window_seconds=300.0,
        max_attempts=3,
        channels=ChannelPlan(primary=("SLACK",), fallback=("PAGERDUTY",)),
        targets={"SLACK": {"channel": "#ops"}, "PAGERDUTY": {"routing_key_env": "UNS_TARGET_PAGERDUTY_OPS"}},
        autonomy={AutonomyMode.SHADOW: quiet, AutonomyMode.PREVIEW: quiet},
        responders=("slack:T1:*", "key:local-responder"),
        links=True,
        irreversible=Overlay(require_ack=True, priority=Priority.HIGH, ack_timeout_minutes=5),
        escalation=(EscalationStep(channels=("PAGERDUTY",), priority=Priority.HIGH, ack_timeout_minutes=10),),
    )
    assert document.origin.file == "ops.yaml"
    assert document.origin.lines["targets.SLACK.channel"] == 17
    assert compose([document], (), {"SLACK", "PAGERDUTY"}).ids == ("ops-alerts",)


def test_a_least_policy_takes_the_defaults(folder):
    """
    What may be left out has its documented default.
    """
    (folder / "ops.yml").write_text(LEAST)

    (document,) = load(folder)

    assert document.policy == a_policy()
    assert document.policy.priority is Priority.NORMAL
    assert document.policy.links is True


def test_files_come_in_the_order_of_their_names(folder):
    """
    Order is by name, whatever the order in which the system lists them.
    """
    for name in ("b.yaml", "a.yml", "C.YAML", "10.yaml"):
        (folder / name).write_text(LEAST)

    assert [document.origin.file for document in load(folder)] == ["10.yaml", "C.YAML", "a.yml", "b.yaml"]


def test_what_is_no_policy_file_is_passed_over(folder):
    """
    Context schemas, hidden files, other files and folders are none of the loader's business.
    """
    (folder / "ops.yaml").write_text(LEAST)
    for name in ("trade.schema.yaml", ".ops.yaml", "README.md", "ops.yaml~", "yaml"):
        (folder / name).write_text("not: [a policy")
    (folder / "gates").mkdir()
    os.mkfifo(folder / "pipe")

    assert len(load(folder)) == 1


def test_an_empty_folder_has_no_documents(folder):
    """
    Whether no policies are too few is the rule's decision; the folder has none.
    """
    assert load(folder) == ()


def test_the_same_key_twice_is_refused(folder):
    """
    Of two equal keys neither wins: the refusal names file, both lines and the key.
    """
    refusal = refusal_of(folder, LEAST + "delivery_mode: BEST_EFFORT\n")

    assert str(refusal) == "ops.yaml, line 8: delivery_mode is a duplicate key: it stands on line 4 already"
    assert refusal.path == "delivery_mode"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        # Numbers: an octal look, an exponent, no number at all, text, a boolean, a fraction, a list.
        ("ack_timeout_minutes: 010", "ack_timeout_minutes is a number or date to some readers of YAML"),
        ("ack_timeout_minutes: 1e3", "ack_timeout_minutes is wrong: expected int, got float"),
        ("ack_timeout_minutes: .inf", "ack_timeout_minutes is not a finite number"),
        ("ack_timeout_minutes: .nan", "ack_timeout_minutes is not a finite number"),
        ('ack_timeout_minutes: "15"', "ack_timeout_minutes is wrong: expected int, got str"),
        ("ack_timeout_minutes: true", "ack_timeout_minutes is wrong: expected int, got bool"),
        ("ack_timeout_minutes: 1.5", "ack_timeout_minutes is wrong: expected int, got float"),
        ("ack_timeout_minutes: 1:30", "ack_timeout_minutes is a number or date to some readers of YAML"),
        ("ack_timeout_minutes: [15]", "ack_timeout_minutes is wrong: expected int, got array"),
        ("ack_timeout_minutes:", "ack_timeout_minutes is wrong: expected int, got null"),
        ("dedup_window_seconds: .inf", "dedup_window_seconds is not a finite number"),
        ("dedup_window_seconds: 1e999", "dedup_window_seconds is not a finite number"),
        ("dedup_window_seconds: '300'", "dedup_window_seconds is wrong: expected float, got str"),
        ("dedup_window_seconds: false", "dedup_window_seconds is wrong: expected float, got bool"),
        ("max_attempts: 0x10", "max_attempts is a number or date to some readers of YAML"),
        ("max_attempts: 1_0", "max_attempts is a number or date to some readers of YAML"),
        # Booleans: the words of older YAML, text, a number.
        ("links: yes", "links is wrong: expected bool, got str"),
        ("links: on", "links is wrong: expected bool, got str"),
        ('links: "true"', "links is wrong: expected bool, got str"),
        ("links: 1", "links is wrong: expected bool, got int"),
        # Text: numbers, booleans, nothing, dates.
        ("responders: [5]", "responders.0 is wrong: expected str, got int"),
        ("responders: [true]", "responders.0 is wrong: expected str, got bool"),
        ("responders: [~]", "responders.0 is wrong: expected str, got null"),
        ("responders: [2026-10-01]", "responders.0 is a number or date to some readers of YAML"),
        # Words of a closed vocabulary.
        ("intent: on", "intent is wrong: invalid enum value 'on'"),
        ("intent: operational", "intent is wrong: invalid enum value 'operational'"),
        ("priority: true", "priority is wrong: expected str, got bool"),
        ("priority: ~", "priority is wrong: expected str, got null"),
        # Shapes.
        ("match: {source: pay}", "match.source is wrong: expected array, got str"),
        ("match: [pay]", "match is wrong: expected object | null, got array"),
        ("escalation: {channels: [LOG]}", "escalation is wrong: expected array, got object"),
        ("escalation: [{priority: HIGH}]", "escalation.0.channels is missing"),
        ("targets: [LOG]", "targets is wrong: expected object, got array"),
        ("targets: {LOG: 5}", "targets.LOG is wrong: expected object, got int"),
        ("autonomy: {SHADOW: 5}", "autonomy.SHADOW is wrong: expected object, got int"),
        (
            "autonomy: {SHADOW: {require_ack: no}}",
            "autonomy.SHADOW.require_ack is wrong: expected bool | null, got str",
        ),
        ("autonomy: {LOUD: {}}", "autonomy.LOUD is wrong: invalid enum value 'LOUD'"),
        (
            "irreversible: {require_ack: 1}",
            "irreversible.require_ack is wrong: expected bool | null, got int",
        ),
        # Keys that nobody knows, at every level.
        ("priorty: HIGH", "priorty is not a key that is known here"),
        ("on: true", "on is not a key that is known here"),
        ("<<: {links: true}", "<< is not a key that is known here"),
        ("match: {sources: [pay]}", "match.sources is not a key that is known here"),
        ("irreversible: {links: true}", "irreversible.links is not a key that is known here"),
        ("autonomy: {SHADOW: {targets: {}}}", "autonomy.SHADOW.targets is not a key that is known here"),
        ("escalation: [{channels: [LOG], after: 5}]", "escalation.0.after is not a key that is known here"),
        ("5: true", "has a key that is not plain text"),
    ],
)
def test_a_wrong_type_is_never_guessed_away(folder, line, told):
    """
    Numbers, booleans, text and words are themselves or are refused, with file, line and key.
    """
    refusal = refusal_of(folder, LEAST + line + "\n")

    assert str(refusal).startswith("ops.yaml, line 8")
    assert told in str(refusal)


@pytest.mark.parametrize("key", ["policy_id", "notification_type", "status", "delivery_mode", "require_ack"])
def test_a_required_key_is_missed(folder, key):
    """
    A missing key is named, at the line where the policy begins.
    """
    text = "".join(line for line in LEAST.splitlines(keepends=True) if not line.startswith(key))

    assert str(refusal_of(folder, text)) == f"ops.yaml, line 1: {key} is missing"


@pytest.mark.parametrize(
    ("key", "written", "told"),
    [
        ("notification_type", "5", "notification_type is wrong: expected str, got int"),
        ("notification_type", "true", "notification_type is wrong: expected str, got bool"),
        ("notification_type", "2026-10-01", "notification_type is a number or date to some readers of YAML"),
        ("notification_type", "012", "notification_type is a number or date to some readers of YAML"),
        ("policy_id", "1e3", "policy_id is wrong: expected str, got float"),
        ("policy_id", "~", "policy_id is wrong: expected str, got null"),
        ("status", "on", "status is wrong: invalid enum value 'on'"),
        ("require_ack", "no", "require_ack is wrong: expected bool, got str"),
        ("require_ack", "0", "require_ack is wrong: expected bool, got int"),
    ],
)
def test_a_required_key_is_never_guessed_either(folder, key, written, told):
    """
    Text fields receive no number, boolean or date; a boolean is not a word of older YAML.
    """
    lines = [f"{key}: {written}" if line.startswith(key) else line for line in LEAST.splitlines()]

    refusal = refusal_of(folder, "\n".join(lines))

    assert told in str(refusal)
    assert refusal.path == key


def test_on_is_a_word(folder):
    """
    YAML 1.2 has no ``on`` but the text: as a type it is one.
    """
    (folder / "ops.yaml").write_text(LEAST.replace('"*"', "on"))

    assert load(folder)[0].policy.notification_type == "on"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "ops.yaml is empty"),
        ("just text", "ops.yaml, line 1: expected object, got str"),
        ("- a: list\n", "ops.yaml, line 1: expected object, got array"),
        (LEAST + "---\n" + LEAST, "ops.yaml, line 8 has a second document"),
        (LEAST.replace("  primary", "\tprimary"), "ops.yaml, line 7 is not YAML: found character '\\t'"),
        (LEAST + "links: !!python/object/apply:os.system [id]\n", "ops.yaml, line 8: links has a tag"),
        ("\ud800".encode("utf-8", "surrogatepass"), "ops.yaml, line 1 is not UTF-8"),
        (LEAST.encode() + b"# caf\xe9\n", "ops.yaml, line 8 is not UTF-8"),
        (LEAST.encode("utf-16"), "ops.yaml, line 1 is not UTF-8"),
        (LEAST + "schema: trade\nrules: []\n", "ops.yaml, line 9: this is a governance gate"),
    ],
)
def test_what_is_not_one_policy_is_refused(folder, text, told):
    """
    A file that is empty, torn, foreign or holds two documents is refused by name.
    """
    content = text if isinstance(text, bytes) else text.encode()
    (folder / "ops.yaml").write_bytes(content)

    with pytest.raises(Rejected) as refusal:
        load(folder)

    assert str(refusal.value).startswith(told)


def test_a_byte_order_mark_does_no_harm(folder):
    """
    Editors that begin UTF-8 files with a mark are forgiven.
    """
    (folder / "ops.yaml").write_text(LEAST, encoding="utf-8-sig")

    assert load(folder)[0].policy.policy_id == "ops"


def test_one_bad_file_refuses_the_folder(folder):
    """
    A folder is read as a whole: the good files do not come without the bad one.
    """
    (folder / "a.yaml").write_text(LEAST)

    assert str(refusal_of(folder, "a: 1\na: 2\n", "b.yaml")).startswith("b.yaml, line 2")


def test_a_missing_folder_is_not_found(tmp_path):
    """
    No folder, or something else in its place, is NotFound; the message names it.
    """
    (tmp_path / "file").write_text("")

    for name in ("nowhere", "file"):
        with pytest.raises(NotFound, match=f"there is no policy folder .*{name}"):
            load(tmp_path / name)


def test_a_folder_whose_name_cannot_be_is_refused():
    """
    A path that the system cannot even look up is refused, not an error of the program.
    """
    with pytest.raises(Rejected, match="cannot be read: the path is not valid"):
        load("pol\0icies")


def a_folder_named_yaml(path):
    path.mkdir()


def a_socket(path):
    listening = socket.socket(socket.AF_UNIX)
    here = os.open(path.parent, os.O_RDONLY)
    try:
        listening.bind(f"/proc/self/fd/{here}/{path.name}")  # a socket's path has 108 bytes at most
    finally:
        os.close(here)
        listening.close()


@pytest.mark.parametrize(
    "make",
    [a_folder_named_yaml, os.mkfifo, a_socket, lambda path: path.symlink_to("/dev/zero")],
    ids=["folder", "fifo", "socket", "device"],
)
def test_what_is_not_a_regular_file_is_refused_unopened(folder, make):
    """
    Reading a pipe would wait for ever and reading a device never end: neither is opened.
    """
    make(folder / "x.yaml")

    with pytest.raises(Rejected, match=r"^x\.yaml (is not a regular file|leads out of the folder)"):
        load(folder)


def test_a_link_may_not_lead_out(folder, tmp_path):
    """
    A file outside the folder is not the operator's to load, be it a policy, a pipe or a secret.
    """
    (tmp_path / "outside.yaml").write_text(LEAST)
    for target in (tmp_path / "outside.yaml", Path("../outside.yaml"), Path("/etc/passwd")):
        (folder / "x.yaml").symlink_to(target)
        with pytest.raises(Rejected, match=r"^x\.yaml leads out of the folder"):
            load(folder)
        (folder / "x.yaml").unlink()


def test_a_link_to_a_sibling_folder_leads_out(folder, tmp_path):
    """
    A folder whose name only begins like ours is another folder.
    """
    (tmp_path / "policies-old").mkdir()
    (tmp_path / "policies-old" / "ops.yaml").write_text(LEAST)
    (folder / "x.yaml").symlink_to(tmp_path / "policies-old" / "ops.yaml")

    with pytest.raises(Rejected, match="leads out of the folder"):
        load(folder)


def test_a_link_that_stays_inside_is_followed(folder):
    """
    Mounted configuration is links to a versioned folder beside them; the folder itself may be one.
    """
    (folder / "..2026").mkdir()
    (folder / "..2026" / "ops.yaml").write_text(LEAST)
    (folder / "..data").symlink_to("..2026")
    (folder / "ops.yaml").symlink_to("..data/ops.yaml")
    (folder.parent / "current").symlink_to(folder)

    assert [d.origin.file for d in load(folder.parent / "current")] == ["ops.yaml"]


@pytest.mark.parametrize("target", ["nowhere.yaml", "x.yaml"], ids=["dangling", "loop"])
def test_a_link_to_nothing_is_refused(folder, target):
    """
    A link that ends nowhere is a fault of the folder, not a policy less.
    """
    (folder / "x.yaml").symlink_to(target)

    with pytest.raises(Rejected, match=r"^x\.yaml cannot be read: "):
        load(folder)


@contextmanager
def not_root():
    """
    Root may read everything, so for a moment we are somebody else.
    """
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        if was == 0:
            os.seteuid(was)


@pytest.fixture
def public_folder():
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


def test_a_file_that_may_not_be_read_is_refused(public_folder):
    """
    A file that the process may not read is told by name, with the system's reason.
    """
    (public_folder / "ops.yaml").write_text(LEAST)
    (public_folder / "ops.yaml").chmod(0)

    with not_root(), pytest.raises(Rejected, match=r"^ops\.yaml cannot be read: Permission denied"):
        load(public_folder)


def test_a_folder_that_may_not_be_read_is_refused(public_folder):
    """
    A folder that the process may not list is refused, not taken for empty or missing.
    """
    public_folder.chmod(0)

    with not_root(), pytest.raises(Rejected, match=r"the policy folder .* cannot be read: Permission denied"):
        load(public_folder)


def padded(size):
    return LEAST + "#" * (size - len(LEAST) - 1) + "\n"


def test_a_file_has_a_size_worth_reading(folder):
    """
    A file of exactly the limit passes; one byte more is refused.
    """
    (folder / "ops.yaml").write_text(padded(FILE_BYTES))
    assert len(load(folder)) == 1

    (folder / "ops.yaml").write_text(padded(FILE_BYTES + 1))
    with pytest.raises(Rejected, match=rf"^ops\.yaml has more than {FILE_BYTES} bytes"):
        load(folder)


def test_a_folder_has_a_size_worth_reading(folder):
    """
    Sizes are added up before anything is read: here the files would be refused for what they hold.
    """
    for n in range(FOLDER_BYTES // FILE_BYTES + 1):
        with open(folder / f"{n}.yaml", "wb") as hollow:
            hollow.truncate(FILE_BYTES)

    with pytest.raises(Rejected, match=f"the folder holds more than {FOLDER_BYTES} bytes of policies"):
        load(folder)


def a_link_out(path):
    path.symlink_to("/etc/passwd")


def a_large_file(path):
    path.write_text(padded(FILE_BYTES + 1))


@pytest.mark.parametrize(
    ("make", "told"),
    [(os.mkfifo, "is not a regular file"), (a_link_out, "cannot be read"), (a_large_file, "has more than")],
    ids=["fifo", "link", "large"],
)
def test_a_file_swapped_after_it_was_looked_at_is_refused(folder, make, told):
    """
    Between looking at a file and opening it somebody may put another thing in its place: it is
    looked at again through what was opened, without following a link or waiting for a pipe.
    """

    class Meddled(PolicyFolder):
        def _files(self):
            found = super()._files()
            (folder / "ops.yaml").unlink()
            make(folder / "ops.yaml")
            return found

    (folder / "ops.yaml").write_text(LEAST)

    with pytest.raises(Rejected, match=rf"^ops\.yaml {told}"):
        Meddled(folder).load()


def test_a_name_that_is_no_text_can_be_told(folder):
    """
    File names are bytes; one that is not UTF-8 is told in a message that can be encoded.
    """
    with open(os.fsencode(folder) + b"/caf\xe9.yaml", "w") as opened:
        opened.write("a: 1\na: 2\n")

    with pytest.raises(Rejected) as refusal:
        load(folder)

    assert str(refusal.value).encode().startswith("caf\ufffd.yaml, line 2".encode())


def test_the_packaged_policies_are_a_valid_set():
    """
    What comes with the service passes its own rules: two for the start, four under every snapshot.
    """
    packaged = packaged_policies()

    own = [document for document in packaged if not is_packaged(document.policy)]
    underlay = [document for document in packaged if is_packaged(document.policy)]
    found = {p.notification_type: p for p in (document.policy for document in packaged)}

    assert [document.policy.policy_id for document in own] == ["default-ask", "default"]
    assert set(found) == {"*", "ask.*", "governance.*", "uns.*", "chain.*", "schedule.*"}
    assert len(compose(own, underlay, ()).ids) == 6
    assert all(policy.channels == ChannelPlan(primary=("LOG",)) for policy in found.values())
    assert all(policy.delivery_mode is DeliveryMode.GUARANTEED for policy in found.values())
    assert {kind for kind, policy in found.items() if policy.require_ack} == {"ask.*", "governance.*"}
    assert (found["*"].dedup_window_seconds, found["ask.*"].dedup_window_seconds) == (300, 0)
    assert found["ask.*"].ack_timeout_minutes == found["governance.*"].ack_timeout_minutes == 30
    assert all(document.policy.policy_id + ".yaml" == document.origin.file for document in packaged)


def test_the_example_in_the_documentation_loads(folder):
    """
    What operators copy from the documentation passes every rule as it stands there.
    """
    page = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
    example = page.split("```yaml\n")[1].split("```")[0]
    (folder / "ops.yaml").write_text(example)

    assert compose(load(folder), (), {"SLACK", "PAGERDUTY"}).ids == ("ops-alerts",)
