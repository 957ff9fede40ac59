"""What docs/operations.md shows of the operations is run, so that it stays true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
from tests.support.waiting import eventually_async

from leasehold.operations import STANDARD, Purpose, Purposes

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")


def shown(section: str, language: str = "python") -> str:
    """The example of a section."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    code = re.search(rf"```{language}\n(.*?)```", text, re.DOTALL)
    assert code is not None, section
    return code[1]


def run(section: str, url: str) -> dict[str, Any]:
    """What the example of a section has defined; it finds `url` there."""
    names: dict[str, Any] = {"url": url}
    exec(compile(shown(section), section, "exec", dont_inherit=True), names)
    return names


async def test_purposes(valkey, capsys) -> None:
    await run("Purposes", valkey.url)["main"]()
    assert capsys.readouterr().out == "paying under payout:42 for 60.0 s\nclosing under deal:42\n"


def test_the_file_of_purposes(tmp_path) -> None:
    path = tmp_path / "locks.toml"
    path.write_text(shown("Purposes", "toml"), encoding="utf-8")
    purposes = Purposes.from_toml(path, base=STANDARD)
    assert (purposes["payout"].ttl, purposes["payout"].wait, purposes["payout"].retry_interval) == (
        90,
        5,
        0.05,
    )
    loyalty = Purpose("loyalty", "loyalty:{user_id}", wait=None, retry_interval=0.05, renew=False)
    assert purposes["loyalty"] == loyalty


async def test_fastapi(valkey) -> None:
    names = run("FastAPI", valkey.url)
    transport = httpx.ASGITransport(app=names["app"])
    async with (
        names["ops"].locks as locks,
        httpx.AsyncClient(transport=transport, base_url="http://x") as web,
    ):
        assert (await web.post("/deals/42/close")).json() == {"closed under": "deal:42"}
        async with locks.lock("deal:42"):
            busy = await web.post("/deals/42/close", timeout=60)
    assert (busy.status_code, busy.json()["code"]) == (409, "acquire_timeout")


async def test_message_consumers(valkey, capsys) -> None:
    names = run("Message consumers", valkey.url)
    said = ""

    def has_paid() -> bool:
        nonlocal said
        said += capsys.readouterr().out
        return "paying 42 under payout:42" in said and "paying 43" in said

    async with names["ops"].locks, names["broker"] as broker:
        await broker.start()
        for deal_id in (42, 42, 43):
            await broker.publish({"deal_id": deal_id}, stream="payouts")
        await eventually_async(has_paid, within=60)
    assert said.count("paying 42") == 1
