"""What the documents show is run, so that it stays true."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import eventually_async

import leasehold

ROOT = Path(__file__).parents[2]


def test_the_example_in_the_readme_runs_as_written(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    ran = subprocess.run(
        [sys.executable, "-c", code[1]],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    first, second = ran.stdout.splitlines()
    assert re.fullmatch(r"fence \d{16} for 30 s", first)
    assert second == "None"


async def test_the_rights_that_the_operations_page_names_are_enough(own_server) -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rights = re.search(r"`(\+@connection [^`]+)`\s+on `(~lock:\*)`[^`]*`(&leasehold:\*)`", page)
    assert rights is not None
    server = own_server(
        "valkey9", user=["default off", f"locker on >secret resetchannels -@all {' '.join(rights.groups())}"]
    )
    async with leasehold.connect(server.url_for(username="locker", password="secret")) as locks:
        async with locks.lock("deal:42", ttl=5) as lease:
            await lease.renew()
            assert await locks.try_acquire("deal:42") is None
        taken = await locks.take("deal:42")
        assert (await locks.inspect("deal:42")).fence == taken.fence
        await taken.release()
        async with locks.lock("deal:44", mode="shared"), locks.lock("deal:44", mode="shared"):
            waiting = asyncio.create_task(locks.acquire("deal:44", wait=20, ttl=5))

            async def is_waited_for():
                return (await locks.inspect("deal:44")).waiters

            await eventually_async(is_waited_for)
        await (await waiting).release()
        async with locks.lock_all(["deal:45", "deal:46"]):
            assert [info.name async for info in locks.list("deal:45")] == ["deal:45"]
        lost = await locks.acquire("deal:43", ttl=5)
        await (await locks.take("deal:43")).release()
        with pytest.raises(leasehold.LeaseLost, match="taken"):
            await lost.release()
