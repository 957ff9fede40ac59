"""The tables. Money is in cents.

A fence orders the grants of one lock, so a row that checks fences belongs to one lock, and the lock to one purpose:

=================  ==========================  =====================================
row                lock                        is changed by
=================  ==========================  =====================================
`Account`          ``balance:{account_id}``    operations that move money
`Deal`             ``deal:{deal_id}``          all operations on the deal
`Funding`          ``deposit:{deal_id}``       deposits
`Payout`           ``payout:{deal_id}``        the payout
`Refund`           ``refund:{deal_id}``        the refund
`Notice`           ``outbox:poller``           the delivery of notifications
`Report`           ``reconciliation``          the reconciliation
=================  ==========================  =====================================

`Deposit`, `Entry` and `Mail` are append-only records. A real service should have unique keys on them as well: they
prevent a second payout, though not a balance that is overwritten with an old one. Here they are left out, so that
only the fences protect the books from a late worker.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, ForeignKey
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from leasehold.operations.guards.sql import Fenced

PLATFORM = 1
"""The account for fees. Every payout changes it, so workers contend for it."""


class Base(DeclarativeBase):
    pass


class Account(Fenced, Base):
    __tablename__ = "escrow_accounts"

    id: Mapped[int] = mapped_column(primary_key=True)
    owner: Mapped[str]
    opening: Mapped[int] = mapped_column(BigInteger)
    balance: Mapped[int] = mapped_column(BigInteger)


class Deal(Fenced, Base):
    """``created`` → ``funded`` → ``paid``, or ``refunded`` from both, or ``cancelled`` before the first deposit."""

    __tablename__ = "escrow_deals"

    id: Mapped[int] = mapped_column(primary_key=True)
    buyer_id: Mapped[int] = mapped_column(ForeignKey(Account.id))
    seller_id: Mapped[int] = mapped_column(ForeignKey(Account.id))
    price: Mapped[int] = mapped_column(BigInteger)
    fee: Mapped[int] = mapped_column(BigInteger)
    held: Mapped[int] = mapped_column(BigInteger, default=0)
    state: Mapped[str] = mapped_column(default="created", index=True)


class Funding(Fenced, Base):
    """The sum of the deposits of a deal."""

    __tablename__ = "escrow_fundings"

    deal_id: Mapped[int] = mapped_column(ForeignKey(Deal.id), primary_key=True)
    received: Mapped[int] = mapped_column(BigInteger, default=0)


class Payout(Fenced, Base):
    __tablename__ = "escrow_payouts"

    deal_id: Mapped[int] = mapped_column(ForeignKey(Deal.id), primary_key=True)
    amount: Mapped[int] = mapped_column(BigInteger, default=0)


class Refund(Fenced, Base):
    __tablename__ = "escrow_refunds"

    deal_id: Mapped[int] = mapped_column(ForeignKey(Deal.id), primary_key=True)
    amount: Mapped[int] = mapped_column(BigInteger, default=0)


class Deposit(Base):
    """A received transaction, and whether it was accepted."""

    __tablename__ = "escrow_deposits"

    id: Mapped[int] = mapped_column(primary_key=True)
    tx_hash: Mapped[str] = mapped_column(index=True)
    deal_id: Mapped[int] = mapped_column(ForeignKey(Deal.id))
    amount: Mapped[int] = mapped_column(BigInteger)
    is_accepted: Mapped[bool]


class Entry(Base):
    """An amount moved to an account (or, if negative, from it) for a deal."""

    __tablename__ = "escrow_entries"

    id: Mapped[int] = mapped_column(primary_key=True)
    deal_id: Mapped[int] = mapped_column(ForeignKey(Deal.id), index=True)
    account_id: Mapped[int] = mapped_column(ForeignKey(Account.id), index=True)
    kind: Mapped[str]
    amount: Mapped[int] = mapped_column(BigInteger)


class Notice(Fenced, Base):
    """The outbox: written in the transaction that it reports, delivered later."""

    __tablename__ = "escrow_notices"

    id: Mapped[int] = mapped_column(primary_key=True)
    deal_id: Mapped[int] = mapped_column(ForeignKey(Deal.id))
    text: Mapped[str]
    is_sent: Mapped[bool] = mapped_column(default=False, index=True)


class Mail(Base):
    """A notification that was sent."""

    __tablename__ = "escrow_mails"

    id: Mapped[int] = mapped_column(primary_key=True)
    notice_id: Mapped[int] = mapped_column(ForeignKey(Notice.id), index=True)


class Report(Fenced, Base):
    """The result of the last reconciliation, in a single row."""

    __tablename__ = "escrow_reports"

    id: Mapped[int] = mapped_column(primary_key=True)
    checks: Mapped[int] = mapped_column(default=0)
    discrepancies: Mapped[int] = mapped_column(default=0)
