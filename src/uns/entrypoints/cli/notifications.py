"""
``uns send``, ``get``, ``ack``, ``dismiss``, ``withdraw``.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from uns.entrypoints.cli.exits import Exit, Usage
from uns.entrypoints.cli.ledger import Json, Ledger, opened, settings_of
from uns.entrypoints.cli.options import AsJson, Metadata, pairs
from uns.entrypoints.cli.output import print_card, print_json, print_table, say, when
from uns.entrypoints.cli.reading import request_in

NOBODY = "00000000-0000-0000-0000-000000000000"
POLL_SECONDS = 0.5

_ANSWERS = frozenset({"ACKED", "DISMISSED", "TIMED_OUT"})
_GOOD = frozenset({"ACKED", "DISMISSED"})


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Fields:
    """
    The request's fields as options; what is None is left out of it.
    """

    notification_type: Annotated[str | None, Parameter(name="--type", help="Its type, like ask.demo.")] = None
    title: Annotated[str | None, Parameter(help="One line, at most 200 characters.")] = None
    message: Annotated[str | None, Parameter(help="What there is to say.")] = None
    intent: Annotated[
        str | None, Parameter(help="SAFETY, GOVERNANCE, OPERATIONAL (unless given) or INFORMATIONAL.")
    ] = None
    source: Annotated[str | None, Parameter(help="The subsystem that asks; cli unless given.")] = None
    agent_id: Annotated[str | None, Parameter(help="The agent that asks, a UUID; nobody unless given.")] = (
        None
    )
    autonomy_mode: Annotated[
        str | None, Parameter(name="--mode", help="LIVE (unless given), SHADOW or PREVIEW.")
    ] = None
    irreversible: Annotated[bool, Parameter(negative=(), help="What it asks for cannot be undone.")] = False
    idempotency_key: Annotated[str | None, Parameter(help="Makes a repetition harmless.")] = None
    dedup_key: Annotated[str | None, Parameter(help="What it coalesces under; its content unless given.")] = (
        None
    )
    correlation_id: Annotated[str | None, Parameter(help="To find it by.")] = None
    delivery_mode: Annotated[str | None, Parameter(help="As the policy has it.")] = None
    require_ack: Annotated[bool | None, Parameter(help="As the policy has it.")] = None
    priority: Annotated[str | None, Parameter(help="As the policy has it.")] = None
    metadata: Metadata = ()


NO_FIELDS = Fields()


def register(app: App) -> None:
    """
    Add the commands of this module.
    """
    for command in (send, get, ack, dismiss, withdraw):
        app.command(command)


def send(
    *,
    fields: Fields = NO_FIELDS,
    file: Annotated[
        str | None,
        Parameter(allow_leading_hyphen=True, help="The request as JSON in a file; - is standard input."),
    ] = None,
    wait: Annotated[
        float | None,
        Parameter(help="Seconds to wait for the answer, or for the delivery where none is asked for."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """
    Send a notification.

    Ends with 1 when it failed, or when the time of --wait is up and nobody answered.
    """
    body = _request(fields, file)
    with opened(settings_of(dict(os.environ))) as ledger:
        sent = ledger.send(body)
        if wait is not None:
            sent = _awaited(ledger, sent["notification_id"], wait)
    _print(sent, as_json)
    return _verdict(sent, waited=wait is not None)


def get(
    id: Annotated[str, Parameter(help="The notification's id.")],
    /,
    *,
    events: Annotated[bool, Parameter(negative=(), help="With its timeline.")] = False,
    as_json: AsJson = False,
) -> None:
    """
    Show a notification and who answered it.
    """
    with opened(settings_of(dict(os.environ))) as ledger:
        found = ledger.get(id)
        timeline = ledger.events(id) if events else None
    if as_json:
        print_json(found if timeline is None else found | {"events": timeline})
        return
    print_card(found)
    if timeline is not None:
        rows = [(when(event["at"]), event["kind"], event["payload"]) for event in timeline]
        print_table(["at", "event", "what it says"], rows)


def ack(
    id: Annotated[str, Parameter(help="The notification's id.")],
    /,
    *,
    metadata: Metadata = (),
    as_json: AsJson = False,
) -> None:
    """
    Acknowledge a notification that awaits an answer.
    """
    _answer(id, metadata, as_json, dismiss=False)


def dismiss(
    id: Annotated[str, Parameter(help="The notification's id.")],
    /,
    *,
    metadata: Metadata = (),
    as_json: AsJson = False,
) -> None:
    """
    Dismiss a notification that awaits an answer.
    """
    _answer(id, metadata, as_json, dismiss=True)


def withdraw(
    id: Annotated[str, Parameter(help="The notification's id.")], /, *, as_json: AsJson = False
) -> None:
    """
    Take a notification back: nothing more of it is sent, and nobody need answer.
    """
    with opened(settings_of(dict(os.environ))) as ledger:
        withdrawn = ledger.withdraw(id)
    _print(withdrawn, as_json)


def _request(fields: Fields, file: str | None) -> bytes:
    if file is not None:
        if fields != NO_FIELDS:
            raise Usage("--file holds the whole request: leave its fields out, or leave out --file")
        return request_in(file)
    given: dict[str, Any] = {name: value for name, value in vars(fields).items() if value is not None}
    for name, option in (("notification_type", "--type"), ("title", "--title"), ("message", "--message")):
        if name not in given:
            raise Usage(f"{option} is missing: give --type, --title and --message, or the request in --file")
    context = {"autonomy_mode": given.pop("autonomy_mode", "LIVE"), "agent_id": given.pop("agent_id", NOBODY)}
    plain = {"intent": "OPERATIONAL", "source": "cli", "autonomy_context": context}
    return msgspec.json.encode(plain | given | {"metadata": pairs(fields.metadata)})


def _awaited(ledger: Ledger, id: str, seconds: float) -> Json:
    until = time.monotonic() + seconds
    while not _final(found := ledger.get(id)) and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, POLL_SECONDS))
    return found


def _final(found: Json) -> bool:
    """
    Whether nothing can come of it any more.
    """
    if found["effective_ack_status"] in _ANSWERS or found["obligation_resolution_status"] == "UNRESOLVED":
        return True
    if found["status"] == "FAILED":
        return not found["ack_inherited"]
    return not found["require_ack"] and found["status"] != "PENDING"


def _verdict(sent: Json, *, waited: bool) -> Exit:
    if sent["effective_ack_status"] in _GOOD:
        return Exit.DONE
    if sent["status"] == "FAILED":
        say(f"{sent['notification_id']} was accepted, and failed")
        return Exit.FAILED
    if waited and (sent["require_ack"] or sent["status"] == "PENDING"):
        say(f"{sent['notification_id']} was accepted, and nothing came of it in time: `uns get` shows it")
        return Exit.FAILED
    return Exit.DONE


def _answer(id: str, metadata: tuple[str, ...], as_json: bool, *, dismiss: bool) -> None:
    said = pairs(metadata)
    with opened(settings_of(dict(os.environ))) as ledger:
        answer = ledger.answer(id, dismiss=dismiss, metadata=said)
    _print(answer, as_json)


def _print(found: Json, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        print_card(found)
