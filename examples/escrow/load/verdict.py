"""Judges whether the books balance, and prints the report."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from examples.escrow.audit import Discrepancy, find_discrepancies
from examples.escrow.models import Deal, Deposit, Entry, Mail
from examples.escrow.notifications import count_unsent
from rich.table import Table
from rich.text import Text
from sqlalchemy import func, select

if TYPE_CHECKING:
    from examples.escrow.load.tally import Tally
    from examples.escrow.load.traffic import Traffic
    from examples.escrow.service import Escrow
    from rich.console import Console

FINAL = {"paid", "refunded", "cancelled"}


@dataclass(frozen=True, slots=True)
class Verdict:
    guards: str
    figures: dict[str, Any]
    discrepancies: list[Discrepancy]

    @property
    def is_balanced(self) -> bool:
        return not self.discrepancies

    @property
    def exit_code(self) -> int:
        if not self.is_balanced:
            return 1
        return 0 if self.guards == "off" or self.figures["stale_writes_refused"] else 3

    @property
    def kinds(self) -> Counter[str]:
        return Counter(each.kind for each in self.discrepancies)

    def as_json(self) -> dict[str, Any]:
        return {
            "guards": self.guards,
            "balanced": self.is_balanced,
            **self.figures,
            "discrepancies": [each.as_json() for each in self.discrepancies],
        }


async def judge(
    escrow: Escrow, traffic: Traffic, tally: Tally, *, guards: str, left: int, aside: int
) -> Verdict:
    """Compare the books with themselves and with the customers' requests."""
    async with escrow.sessions() as session:
        found = await find_discrepancies(session)
        states = {deal.id: deal.state for deal in await session.scalars(select(Deal))}
        heard = set(await session.scalars(select(Deposit.tx_hash)))
        accepted = await session.scalar(select(func.count()).where(Deposit.is_accepted.is_(True)))
        moved = await session.scalar(select(func.sum(func.abs(Entry.amount))))
        mails = await session.scalar(select(func.count()).select_from(Mail))
    lost = [("deposit lost", f"transaction {tx}") for tx in traffic.tx_hashes - heard]
    lost += [
        ("payout or refund lost", f"deal {ident} is still {states[ident]}, messages done")
        for ident in traffic.decided
        if states[ident] not in FINAL
    ]
    found += [Discrepancy(kind, where, 1, 0) for kind, where in lost]
    if unsent := await count_unsent(escrow):
        found.append(Discrepancy("notifications not sent", "the outbox", 0, unsent))
    if left:
        found.append(Discrepancy("messages not done", "the queue", 0, left))
    if aside:
        found.append(Discrepancy("messages put aside", "the queue", 0, aside))
    if tally.checks_failed:
        found.append(
            Discrepancy("books did not balance during the run", "reconciliations", 0, tally.checks_failed)
        )
    if tally.crashed:
        found.append(Discrepancy("workers crashed", "the pool", 0, tally.crashed))
    figures = {
        "deals": traffic.deals,
        "deals_by_state": dict(Counter(states.values())),
        "transactions": len(traffic.tx_hashes),
        "deposits_accepted": accepted or 0,
        "messages_sent": traffic.messages,
        "messages_done": tally.done.total(),
        "put_off": dict(tally.put_off),
        "messages_put_aside": aside,
        "notifications": mails or 0,
        "cents_moved": int(moved or 0),
        "workers_killed": tally.killed,
        "workers_paused": tally.paused,
        "workers_paused_between_read_and_write": tally.paused_between,
        "stale_writes_refused": tally.refused,
        "reconciliations": tally.checks,
        "reconciliations_that_found_something": tally.checks_failed,
    }
    return Verdict(guards, figures, found)


def show(verdict: Verdict, console: Console) -> None:
    table = Table(
        title=f"Fences checked by the database: {verdict.guards}", title_style="bold", show_header=False
    )
    for name, value in verdict.figures.items():
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else f"{value:,}"
        table.add_row(name.replace("_", " "), shown or "none")
    console.print(table)
    if verdict.is_balanced:
        console.print(
            Text("The books balance: nothing paid twice, nothing lost, total money constant.", "bold green")
        )
        return
    console.print(Text(f"The books do not balance: {len(verdict.discrepancies)} discrepancies.", "bold red"))
    for kind, count in verdict.kinds.most_common():
        example = next(each for each in verdict.discrepancies if each.kind == kind)
        console.print(f"  {count:>4} times {example}", highlight=False)


def compare(on: Verdict, off: Verdict, console: Console) -> None:
    """Print the difference that the fences made."""
    refused, harm = on.figures["stale_writes_refused"], len(off.discrepancies)
    console.print()
    if not refused:
        console.print("No stale write occurred with guards, so this run shows nothing. Run it longer.")
    if harm:
        console.print(
            f"With guards {refused} stale writes were refused and the books balance. Without guards, under the same "
            f"faults, there are {harm} discrepancies.",
            highlight=False,
        )
    else:
        console.print(
            "Without guards there was no discrepancy, by luck. Run it longer, or with another --seed."
        )
