"""Checks the books for discrepancies. Reads only, in one snapshot of all tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from examples.escrow.models import Account, Deal, Deposit, Entry, Funding, Mail, Notice
from sqlalchemy import Select, case, func, select

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession


Query = Select[Any, Any, Any]
"""Selects discrepancies: id, expected value, actual value."""


@dataclass(frozen=True, slots=True)
class Discrepancy:
    kind: str
    where: str
    expected: int
    found: int

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.found} instead of {self.expected}"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


async def find_discrepancies(session: AsyncSession) -> list[Discrepancy]:
    """All discrepancies; empty if the books balance."""
    if session.get_bind().dialect.name == "postgresql":
        await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
    found = [
        Discrepancy(kind, f"{what} {ident}", int(expected), int(actual))
        for kind, what, query in _QUERIES
        for ident, expected, actual in await session.execute(query)
    ]
    # As int, because PostgreSQL's sum is a Decimal.
    opening, balances, held = [
        int(await session.scalar(select(func.sum(column))) or 0)
        for column in (Account.opening, Account.balance, Deal.held)
    ]
    there = balances + held
    if there != opening:
        found.append(Discrepancy("total money changed", "all accounts and deals", opening, there))
    return found


def _sum(column: Any, *conditions: Any) -> Any:
    return select(func.coalesce(func.sum(column), 0)).where(*conditions).scalar_subquery()


def _count(model: Any, *conditions: Any) -> Any:
    return select(func.count()).select_from(model).where(*conditions).scalar_subquery()


def _differing(ident: Any, expected: Any, actual: Any) -> Query:
    return select(ident, expected, actual).where(expected != actual)


_IN_DEAL = Entry.deal_id == Deal.id
_accepted = (Deposit.is_accepted.is_(True), Deposit.deal_id == Deal.id)
_payouts = _count(Entry, _IN_DEAL, Entry.kind == "payout")
_refunds = _count(Entry, _IN_DEAL, Entry.kind == "refund")

_QUERIES: list[tuple[str, str, Query]] = [
    (
        "balance is not what was booked",
        "account",
        _differing(
            Account.id, Account.opening + _sum(Entry.amount, Entry.account_id == Account.id), Account.balance
        ),
    ),
    (
        "money held is not what was booked",
        "deal",
        _differing(Deal.id, -_sum(Entry.amount, _IN_DEAL), Deal.held),
    ),
    (
        "payouts do not fit the state",
        "deal",
        _differing(Deal.id, case((Deal.state == "paid", 1), else_=0), _payouts),
    ),
    (
        "refunds do not fit the state",
        "deal",
        _differing(Deal.id, case((Deal.state == "refunded", 1), else_=0), _refunds),
    ),
    (
        "deposit booked more than once",
        "transaction",
        select(Deposit.tx_hash, 1, func.count()).group_by(Deposit.tx_hash).having(func.count() > 1),
    ),
    (
        "accepted deposits are not what was booked",
        "deal",
        _differing(
            Deal.id, _sum(Deposit.amount, *_accepted), -_sum(Entry.amount, _IN_DEAL, Entry.kind == "deposit")
        ),
    ),
    (
        "accepted deposits are not what was received",
        "deal",
        _differing(
            Funding.deal_id,
            _sum(Deposit.amount, Deposit.is_accepted.is_(True), Deposit.deal_id == Funding.deal_id),
            Funding.received,
        ),
    ),
    (
        "notifications do not fit the outbox",
        "notice",
        _differing(
            Notice.id, case((Notice.is_sent.is_(True), 1), else_=0), _count(Mail, Mail.notice_id == Notice.id)
        ),
    ),
]
