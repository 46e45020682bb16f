"""
Operations: dead letters, replay, resolve, callbacks, policies.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uns.adapters.policy_files import PolicyFolder, packaged_policies
from uns.core.plans import callbacks, policies, recovery
from uns.entrypoints import views
from uns.entrypoints.sdk.face import Face, Id, id_of, known, named
from uns.ports.channel import ChannelRegistry
from uns.ports.checks import within
from uns.ports.documents import PolicyDocument
from uns.ports.errors import NotFound, Rejected
from uns.ports.policy import PolicyReload

PAGE = 200


class Operating(Face):
    """
    What operators do.
    """

    _adapters: ChannelRegistry | None

    def replay(self, notification_id: Id, *, actor: str) -> None:
        """
        Begin a new delivery cycle of a dead letter.

        Raises:
            ValueError: no actor.
            KeyError: no such notification.
            Conflict: it is no dead letter, or its obligation lives on elsewhere.
        """
        id, who = known(notification_id), named(actor, "actor")
        cycle = self._read(recovery.dead_letter_cycle(id))
        self._call(recovery.replay(id, actor=who, cycle=cycle, ids=self._ledger.sources.ids()))

    def resolve_failure(self, notification_id: Id, *, actor: str) -> bool:
        """
        Clear a dead letter after remediation outside. False when it is unknown or none.

        Raises:
            ValueError: no actor.
        """
        who = named(actor, "actor")
        id = id_of(notification_id)
        if id is None:
            return False
        return self._call(recovery.resolve_failure(id, actor=who, ids=self._ledger.sources.ids()))

    def dead_letters(self) -> list[dict[str, Any]]:
        """
        Every dead letter, oldest first, with what blocks its replay.
        """
        letters: list[dict[str, Any]] = []
        after = (0.0, "")
        while page := self._read(recovery.dead_letters(PAGE, after)):
            letters += map(views.dead_letter_dict, page)
            after = (page[-1].row.accepted_at, page[-1].row.id)
        return letters

    def dead_letters_after(self, after: tuple[float, str], limit: int) -> list[dict[str, Any]]:
        """
        Some dead letters: the first ``limit`` after an (``accepted_at``, id) pair.
        """
        return [views.dead_letter_dict(d) for d in self._read(recovery.dead_letters(limit, after))]

    def exhausted_callbacks(self) -> list[dict[str, Any]]:
        """
        Callbacks that failed three times and wait for an operator, oldest first.
        """
        events: list[dict[str, Any]] = []
        after = (0.0, "")
        while page := self._read(callbacks.exhausted(PAGE, after)):
            events += map(views.event_dict, page)
            after = (page[-1].at, page[-1].id)
        return events

    def exhausted_callbacks_after(self, after: tuple[float, str], limit: int) -> list[dict[str, Any]]:
        """
        Some of them: the first ``limit`` after an (``at``, id) pair.
        """
        return [views.event_dict(e) for e in self._read(callbacks.exhausted(limit, after))]

    def rearm_callback(self, event_id: Id) -> bool:
        """
        Give an exhausted callback three fresh attempts. False when it is not exhausted.

        Raises:
            KeyError: no such event.
        """
        id = id_of(event_id)
        if id is None:
            raise NotFound("Callback event not found")
        return self._call(callbacks.rearm(id))

    def reload_policies(
        self,
        policy_dir: str | os.PathLike[str],
        *,
        actor: str = "local-operator",
        allow_gaps: bool = False,
    ) -> PolicyReload:
        """
        Put the policies of a folder in force as the whole set, or change nothing.

        Raises:
            KeyError: there is no such folder.
            ValueError: no actor, or a file is wrong; the message names file, line and key.
            Conflict: a promotion by file, or a type in use would lose its policy.
        """
        registered: Sequence[str] = tuple(self._adapters.names()) if self._adapters is not None else ()
        documents = PolicyFolder(Path(policy_dir)).load()
        plan = policies.activate(
            documents,
            packaged=packaged_policies(),
            actor=named(actor, "actor"),
            known_channels=registered,
            allow_gaps=allow_gaps,
        )
        for document in documents:
            self._check_targets(document)
        return self._call(plan)

    def _check_targets(self, document: PolicyDocument) -> None:
        for name, target in document.policy.targets.items():
            adapter = self._adapters.get(name) if self._adapters is not None else None
            check = getattr(adapter, "check_target", None)
            if check is None:
                continue
            try:
                check(target)
            except Rejected as inner:
                fault = within(f"targets.{name}", inner)
                raise (document.origin.locate(fault) if document.origin is not None else fault) from None
