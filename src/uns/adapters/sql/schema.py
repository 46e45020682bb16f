"""
The tables. Columns and their meaning: ``docs/schema.md``.

JSON columns hold text that the core encoded once; they are never compared. Checks hold the states
to their vocabularies. ``seq`` is the order of writing.
"""

from __future__ import annotations

from enum import StrEnum

import sqlalchemy as sa

from uns.adapters.sql.dialects import ONLY_POSTGRESQL, text, xid8
from uns.ports.vocabulary import Ack, PolicyStatus, Status

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(column_0_label)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_Seq = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_Id = text(36)
_Digest = text(64)
_Channel = text(64)
_Name = text(255)
_Word = text(32)


def _states(column: str, states: type[StrEnum]) -> sa.CheckConstraint:
    words = ", ".join(f"'{state}'" for state in states)
    return sa.CheckConstraint(f"{column} IN ({words})", name=column)


notifications = sa.Table(
    "uns_notifications",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("key", _Digest, nullable=False, unique=True),
    sa.Column("fingerprint", _Digest, nullable=False),
    sa.Column("principal", _Name, nullable=False),
    sa.Column("source", _Name, nullable=False),
    sa.Column("notification_type", _Name, nullable=False),
    sa.Column("intent", _Word, nullable=False),
    sa.Column("agent_id", _Id, nullable=False),
    sa.Column("autonomy_mode", _Word, nullable=False),
    sa.Column("priority", _Word, nullable=False),
    sa.Column("delivery_mode", _Word, nullable=False),
    sa.Column("correlation_id", _Name),
    sa.Column("accepted_at", sa.Double, nullable=False),
    sa.Column("notification", sa.Text, nullable=False),
    sa.Column("effective", sa.Text, nullable=False),
    sa.Column("effective_hash", _Digest, nullable=False),
    sa.Column("policy_id", _Name, nullable=False),
    sa.Column("policy_hash", _Digest, nullable=False),
    sa.Column("channels", sa.Text, nullable=False),
    sa.Column("wants_callback", sa.Boolean, nullable=False),
    sa.Column("dedup_key", _Digest),
    sa.Column("escalation_of", _Id),
    sa.Column("status", _Word, nullable=False),
    sa.Column("outcome", sa.Text, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("cycle", sa.Integer, nullable=False),
    sa.Column("cycle_attempts", sa.Integer, nullable=False),
    sa.Column("dedup_owner_id", _Id),
    sa.Column("dedup_generation", sa.Integer),
    sa.Column("dedup_successor_id", _Id),
    sa.Column("next_attempt", sa.Double, nullable=False),
    sa.Column("lease_until", sa.Double, nullable=False),
    sa.Column("lease_token", _Id),
    sa.Column("paced_since", sa.Double),
    sa.Column("dead_letter", sa.Boolean, nullable=False),
    sa.Column("withdrawn", sa.Boolean, nullable=False),
    sa.Column("delivered_at", sa.Double),
    sa.Column("deadline", sa.Double),
    sa.Column("ack_status", _Word),
    sa.Column("actor", _Name),
    sa.Column("responded_at", sa.Double),
    sa.Column("response_metadata", sa.Text),
    _states("status", Status),
    _states("ack_status", Ack),
    # A row moves several times in its first second: its next version then finds room on its page.
    postgresql_with={"fillfactor": 70},
)


def _partial(name: str, *columns: sa.Column[object], where: sa.ColumnElement[bool]) -> sa.Index:
    return sa.Index(name, *columns, sqlite_where=where, postgresql_where=where)


_n = notifications.c
_partial(
    "ix_uns_due",
    _n.priority,
    _n.next_attempt,
    where=sa.and_(_n.status == sa.text("'PENDING'"), _n.dedup_owner_id.is_(None)),
)
_partial("ix_uns_deadline", _n.deadline, where=_n.ack_status == sa.text("'PENDING'"))
_partial("ix_uns_followers", _n.dedup_owner_id, _n.accepted_at, _n.id, where=_n.dedup_owner_id.is_not(None))
_partial("ix_uns_successor", _n.dedup_successor_id, where=_n.dedup_successor_id.is_not(None))
_partial("ix_uns_dead_letters", _n.accepted_at, _n.id, where=_n.dead_letter == sa.true())
_partial("ix_uns_escalation", _n.escalation_of, where=_n.escalation_of.is_not(None))
_partial("ix_uns_correlation", _n.correlation_id, where=_n.correlation_id.is_not(None))
sa.Index("ix_uns_types", _n.notification_type, _n.source, _n.accepted_at)

events = sa.Table(
    "uns_events",
    metadata,
    sa.Column("seq", _Seq, primary_key=True, autoincrement=True),
    sa.Column("id", _Id, nullable=False, unique=True),
    sa.Column("notification_id", _Id, nullable=False, index=True),
    sa.Column("kind", text(50), nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("callback_pending", sa.Boolean, nullable=False),
    sa.Column("callback_until", sa.Double, nullable=False),
    sa.Column("callback_token", _Id),
    sa.Column("callback_attempts", sa.Integer, nullable=False),
    sa.Column("callback_error", sa.String(2000)),
    sa.Column(
        "xid", xid8, nullable=False, server_default=sa.text("pg_current_xact_id()"), info=ONLY_POSTGRESQL
    ),
)
_partial(
    "ix_uns_callbacks",
    events.c.callback_until,
    events.c.at,
    events.c.id,
    where=events.c.callback_pending == sa.true(),
)
_partial("ix_uns_callback_tokens", events.c.callback_token, where=events.c.callback_token.is_not(None))

dedup = sa.Table(
    "uns_dedup",
    metadata,
    sa.Column("key", _Digest, primary_key=True),
    sa.Column("until", sa.Double, nullable=False),
    sa.Column("owner_id", _Id, nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("handed_on", sa.Integer, nullable=False),
    sa.Column("followers", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)

copies = sa.Table(
    "uns_copies",
    metadata,
    sa.Column("notification_id", _Id, primary_key=True),
    sa.Column("channel", _Channel, primary_key=True),
    sa.Column("ref", sa.Text),
    sa.Column("routing", sa.Text),
    sa.Column("state", _Word, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sqlite_with_rowid=False,
)

delivery_audits = sa.Table(
    "notification_audit_records",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("notification_id", _Id, nullable=False, index=True),
    sa.Column("notification_type", _Name, nullable=False),
    sa.Column("status", _Word, nullable=False),
    sa.Column("channels_attempted", sa.Text, nullable=False),
    sa.Column("channels_succeeded", sa.Text, nullable=False),
    sa.Column("channels_failed", sa.Text, nullable=False),
    sa.Column("error_message", sa.Text),
    sa.Column("intent", _Word, nullable=False),
    sa.Column("delivery_mode", _Word, nullable=False),
    sa.Column("autonomy_mode", _Word, nullable=False),
    sa.Column("agent_id", _Id, nullable=False),
    sa.Column("policy_config_id", _Name, nullable=False),
    sa.Column("policy_config_hash", _Digest, nullable=False),
    sa.Column("delivered_at", sa.Double),
    sa.Column("created_at", sa.Double, nullable=False),
    _states("status", Status),
    sqlite_with_rowid=False,
)

ack_audits = sa.Table(
    "ack_audit_records",
    metadata,
    sa.Column("id", _Id, primary_key=True),
    sa.Column("notification_id", _Id, nullable=False, index=True),
    sa.Column("old_status", _Word),
    sa.Column("new_status", _Word, nullable=False),
    sa.Column("acked_by", _Name, nullable=False),
    sa.Column("acked_at", sa.Double, nullable=False),
    sa.Column("ack_metadata", sa.Text),
    sa.Column("created_at", sa.Double, nullable=False),
    _states("new_status", Ack),
    sqlite_with_rowid=False,
)

policy_authority = sa.Table(
    "uns_policy_authority",
    metadata,
    sa.Column("id", _Word, primary_key=True),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("snapshot_hash", _Digest, nullable=False),
)

policy_snapshots = sa.Table(
    "notification_policy_snapshots",
    metadata,
    sa.Column("hash", _Digest, primary_key=True),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
)

policy_contents = sa.Table(
    "notification_policy_contents",
    metadata,
    sa.Column("hash", _Digest, primary_key=True),
    sa.Column("policy_id", _Name, nullable=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
)

policy_revisions = sa.Table(
    "notification_policy_revisions",
    metadata,
    sa.Column("id", text(300), primary_key=True),
    sa.Column("policy_id", _Name, nullable=False, index=True),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("notification_type", _Name, nullable=False),
    sa.Column("status", _Word, nullable=False),
    sa.Column("content_hash", _Digest, nullable=False),
    sa.Column("snapshot_hash", _Digest),
    sa.Column("created_by", _Name, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("activated_at", sa.Double),
    sa.Column("retired_at", sa.Double),
    sa.Column("delta_id", _Id),
    _states("status", PolicyStatus),
)

policies = sa.Table(
    "notification_policies",
    metadata,
    sa.Column("policy_id", _Name, primary_key=True),
    sa.Column("notification_type", _Name, nullable=False, index=True),
    sa.Column("status", _Word, nullable=False),
    sa.Column("content_hash", _Digest, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("updated_at", sa.Double, nullable=False),
    _states("status", PolicyStatus),
)
