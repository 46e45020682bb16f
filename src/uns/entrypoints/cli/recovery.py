"""
``uns replay``, ``uns dlq``, ``uns callbacks``: what operators do about failures.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Annotated

from cyclopts import App, Parameter
from msgspec import Struct

from uns.entrypoints.cli.exits import Exit, Failed, Usage, status_of
from uns.entrypoints.cli.ledger import Json, Ledger, opened, settings_of
from uns.entrypoints.cli.options import AsJson, OlderThan, Where, Yes
from uns.entrypoints.cli.output import print_card, print_json, print_table, say, when
from uns.entrypoints.cli.selection import Selection, selection
from uns.ports.errors import UnsError

OptionalId = Annotated[
    str | None, Parameter(help="One notification's id; without, choose by --where and --older-than.")
]

dlq = App(name="dlq", help="Dead letters: notifications that failed for good.")
callbacks = App(name="callbacks", help="Callbacks that failed three times.")


def register(app: App) -> None:
    """
    Add the commands of this module.
    """
    app.command(replay)
    app.command(dlq)
    app.command(callbacks)


class Act(Struct, frozen=True):
    """
    What is done to dead letters, one by one.

    ``verb`` completes "would be" and "was". ``passes_over`` those that cannot be replayed.
    """

    verb: str
    do: Callable[[Ledger, str], None]
    passes_over: bool = False


REPLAY = Act("replayed", lambda ledger, id: ledger.replay(id), passes_over=True)
RESOLVE = Act("resolved", lambda ledger, id: ledger.resolve(id))


def replay(
    id: OptionalId = None,
    /,
    *,
    where: Where = (),
    older_than: OlderThan = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """
    Begin a new delivery cycle of dead letters.

    One id is replayed at once. Several are listed first, and replayed with --yes.
    """
    return _act(REPLAY, id, selection(where, older_than), yes=yes, as_json=as_json)


@dlq.command(name="list")
def list_dead_letters(*, where: Where = (), older_than: OlderThan = None, as_json: AsJson = False) -> None:
    """
    List dead letters, oldest first.
    """
    chosen = selection(where, older_than)
    with opened(settings_of(dict(os.environ))) as ledger:
        letters = _chosen(ledger, chosen)
    if as_json:
        print_json(letters)
    elif letters:
        _print_letters(letters, [_blocked(letter) for letter in letters], "replay blocked by")
    else:
        say("no dead letters")


@dlq.command
def resolve(
    id: OptionalId = None,
    /,
    *,
    where: Where = (),
    older_than: OlderThan = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> int:
    """
    Clear dead letters that were taken care of elsewhere; nothing is sent again.

    One id is cleared at once. Several are listed first, and cleared with --yes.
    """
    return _act(RESOLVE, id, selection(where, older_than), yes=yes, as_json=as_json)


@callbacks.command(name="list")
def list_callbacks(*, as_json: AsJson = False) -> None:
    """
    List callbacks that wait for an operator.
    """
    with opened(settings_of(dict(os.environ))) as ledger:
        events = ledger.exhausted_callbacks()
    if as_json:
        print_json(events)
    elif events:
        rows = [
            (e["id"], e["kind"], e["notification_id"], when(e["at"]), e["callback_error"]) for e in events
        ]
        print_table(["event", "answer", "notification", "at", "error"], rows)
    else:
        say("no exhausted callbacks")


@callbacks.command
def rearm(
    event_id: Annotated[str, Parameter(help="The event's id, as `uns callbacks list` shows it.")],
    /,
    *,
    as_json: AsJson = False,
) -> None:
    """
    Give a callback three fresh attempts.
    """
    with opened(settings_of(dict(os.environ))) as ledger:
        if not ledger.rearm(event_id):
            raise Failed(f"{event_id} is not exhausted: `uns callbacks list` shows those that are")
    done = {"event_id": event_id, "rearmed": True}
    if as_json:
        print_json(done)
    else:
        print_card(done)


def _act(act: Act, id: str | None, chosen: Selection, *, yes: bool, as_json: bool) -> int:
    if (id is None) == (not chosen):
        raise Usage("name one ID, or choose several by --where and --older-than")
    with opened(settings_of(dict(os.environ))) as ledger:
        if id is not None:
            act.do(ledger, id)
            found = ledger.get(id)
            if as_json:
                print_json(found)
            else:
                print_card(found)
            return Exit.DONE
        letters = _chosen(ledger, chosen)
        results = [_result(act, ledger, letter, yes) for letter in letters]
    _print_results(act, letters, results, applied=yes, as_json=as_json)
    return Exit.REFUSED if yes and any(result.startswith("refused") for result in results) else Exit.DONE


def _result(act: Act, ledger: Ledger, letter: Json, yes: bool) -> str:
    if act.passes_over and letter["replay_block_reason"] is not None:
        return f"passed over: blocked by {_blocked(letter)}"
    if not yes:
        return f"would be {act.verb}"
    try:
        act.do(ledger, letter["id"])
    except UnsError as error:
        if status_of(error) is not Exit.REFUSED:
            raise
        return f"refused: {error}"  # one that moved meanwhile must not keep the others waiting
    return f"was {act.verb}"


def _chosen(ledger: Ledger, chosen: Selection) -> list[Json]:
    now = time.time()
    return [letter for letter in ledger.dead_letters() if chosen.takes(letter, now)]


def _blocked(letter: Json) -> str:
    reason, by = letter["replay_block_reason"], letter["replay_blocked_by"]
    return "" if reason is None else f"{reason} {by or ''}".rstrip()


def _print_results(
    act: Act, letters: list[Json], results: list[str], *, applied: bool, as_json: bool
) -> None:
    if as_json:
        items = [
            {"notification_id": letter["id"], "result": result}
            for letter, result in zip(letters, results, strict=True)
        ]
        print_json({"applied": applied, "items": items})
    elif letters:
        _print_letters(letters, results, "result")
    else:
        say("no dead letter is like that")
    if letters and not applied:
        say(f"nothing was {act.verb}: repeat the command with --yes")


def _print_letters(letters: list[Json], last: list[str], heading: str) -> None:
    rows = [
        (
            letter["id"],
            letter["notification_type"],
            letter["source"],
            when(letter["accepted_at"]),
            letter["notification"].get("title"),
            (letter["outcome"] or {}).get("error_message"),
            tail,
        )
        for letter, tail in zip(letters, last, strict=True)
    ]
    print_table(["notification", "type", "source", "accepted", "title", "error", heading], rows)
