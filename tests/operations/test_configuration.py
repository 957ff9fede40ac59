"""Purposes from TOML and from the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from leasehold import InvalidRequest
from leasehold.operations import STANDARD, Purpose, Purposes

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def toml(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "locks.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


class TestToml:
    def test_makes_purposes(self, toml) -> None:
        path = toml("""
            [defaults]
            wait = "2s"
            retry_interval = "20ms"

            [purposes.loyalty]
            pattern = "lock:loyalty:{user_id}"
            ttl = "1.5m"
            renew = false
            max_hold = "1h"

            [purposes.nightly]
            pattern = "nightly"
            wait = "forever"
            ttl = 45
        """)
        assert dict(Purposes.from_toml(path)) == {
            "loyalty": Purpose(
                "loyalty",
                "loyalty:{user_id}",
                ttl=90,
                wait=2,
                retry_interval=0.02,
                renew=False,
                max_hold=3600,
            ),
            "nightly": Purpose("nightly", "nightly", ttl=45, wait=None, retry_interval=0.02),
        }

    def test_changes_what_it_names_and_leaves_the_rest(self, toml) -> None:
        changed = Purposes.from_toml(toml("[purposes.payout]\nttl = 90"), base=STANDARD)
        assert changed["payout"].ttl == 90
        assert changed["payout"].max_hold == STANDARD["payout"].max_hold
        assert {name: each for name, each in changed.items() if name != "payout"} == {
            name: each for name, each in STANDARD.items() if name != "payout"
        }

    def test_tells_all_that_is_wrong_together(self, toml) -> None:
        path = toml("""
            colour = "red"
            [defaults]
            renew = true
            [purposes]
            odd = 1
            [purposes.deal]
            ttl = 0
            [purposes.payout]
            pattern = "payout"
            [purposes.refund]
            tttl = 60
            wait = "five"
            [purposes.deposit]
            pattern = "deposit:{deal_id"
            [purposes.unheard_of]
            ttl = 5
            [purposes.Bad]
            pattern = "bad"
            [purposes.balance]
            ttl = "25h"
            renew = "perhaps"
        """)
        with pytest.raises(InvalidRequest) as caught:
            Purposes.from_toml(path, base=STANDARD)
        first, *problems = str(caught.value).splitlines()
        assert first == f"{path} has 12 problems:"
        told = [line.strip().removeprefix("- ").partition(":")[0] for line in problems]
        assert sorted(told) == sorted(
            [
                "colour",
                "defaults.renew",
                "purposes.odd",
                "purposes.deal",
                "purposes.payout",
                "purposes.refund.tttl",
                "purposes.refund.wait",
                "purposes.deposit.pattern",
                "purposes.unheard_of",
                "purposes.Bad",
                "purposes.balance",
                "purposes.balance.renew",
            ]
        )

    def test_a_pattern_must_keep_the_parameters_that_the_program_gives(self, toml) -> None:
        with pytest.raises(InvalidRequest, match=r"must have the parameters of 'payout:\{deal_id\}'"):
            Purposes.from_toml(toml('[purposes.payout]\npattern = "payout:{id}"'), base=STANDARD)
        moved = Purposes.from_toml(toml('[purposes.payout]\npattern = "v2:payout:{deal_id}"'), base=STANDARD)
        assert moved["payout"].lock_name(deal_id=1) == "v2:payout:1"

    def test_a_missing_or_invalid_file_is_named_in_the_error(self, toml, tmp_path) -> None:
        with pytest.raises(InvalidRequest, match=r"nowhere\.toml cannot be read"):
            Purposes.from_toml(tmp_path / "nowhere.toml")
        with pytest.raises(InvalidRequest, match=r"locks\.toml is not TOML"):
            Purposes.from_toml(toml("[purposes"))
        (tmp_path / "latin.toml").write_bytes(b'a = "\xe9"')
        with pytest.raises(InvalidRequest, match=r"latin\.toml cannot be read"):
            Purposes.from_toml(tmp_path / "latin.toml")


class TestEnvironment:
    def test_changes_one_purpose(self) -> None:
        changed = Purposes.from_environ(
            {
                "LEASEHOLD_PURPOSE_PAYOUT_TTL": "90s",
                "LEASEHOLD_PURPOSE_PAYOUT_RETRY_INTERVAL": "100ms",
                "LEASEHOLD_PURPOSE_OUTBOX_POLLER_MAX_HOLD": "forever",
                "LEASEHOLD_PURPOSE_OUTBOX_POLLER_RENEW": "false",
                "LEASEHOLD_STORE_URL": "redis://elsewhere",
                "PATH": "/bin",
            },
            base=STANDARD,
        )
        assert (changed["payout"].ttl, changed["payout"].retry_interval) == (90, 0.1)
        assert (changed["outbox_poller"].max_hold, changed["outbox_poller"].renew) == (None, False)
        assert changed["deal"] == STANDARD["deal"]

    def test_can_add_one(self) -> None:
        made = Purposes.from_environ({"LEASEHOLD_PURPOSE_LOYALTY_PATTERN": "loyalty:{user_id}"})
        assert dict(made) == {"loyalty": Purpose("loyalty", "loyalty:{user_id}")}

    @pytest.mark.parametrize(
        ("ttl", "wait", "interval"),
        [("45s", "3s", "20ms"), ("45", "3", "0.02"), ("0.75m", "3000ms", "0.02s")],
    )
    def test_the_names_of_the_seeds_set_what_a_purpose_does_not_say(self, ttl, wait, interval) -> None:
        base = Purposes(
            [Purpose("plain", "plain"), Purpose("own", "own", ttl=30, wait=5, retry_interval=0.5)]
        )
        environ = {
            "LOCK_DEFAULT_TTL": ttl,
            "LOCK_ACQUISITION_TIMEOUT": wait,
            "LOCK_RETRY_INTERVAL": interval,
        }
        changed = Purposes.from_environ(environ, base=base)
        plain = changed["plain"]
        assert (plain.ttl, plain.wait, plain.retry_interval) == (45, 3, 0.02)
        assert changed["own"] == base["own"]
        standard = Purposes.from_environ(environ, base=STANDARD)
        assert (standard["deal"].ttl, standard["deal"].wait) == (30, 3)
        assert standard["reconciliation"].wait == 0

    def test_goes_on_top_of_a_file(self, toml) -> None:
        both = Purposes.from_environ(
            {"LEASEHOLD_PURPOSE_DEAL_WAIT": "1s"},
            base=Purposes.from_toml(toml("[purposes.deal]\nttl = 20"), base=STANDARD),
        )
        assert (both["deal"].ttl, both["deal"].wait) == (20, 1)

    @pytest.mark.parametrize(
        ("environ", "told"),
        [
            ({"LOCK_DEFAULT_TTL": "30000"}, "LOCK_DEFAULT_TTL: 30000 has no unit; write 30000ms or 30000s"),
            ({"LOCK_RETRY_INTERVAL": "50"}, "check that both are in seconds"),
            ({"LOCK_ACQUISITION_TIMEOUT": "soon"}, "LOCK_ACQUISITION_TIMEOUT: wait must be seconds"),
            ({"LOCK_DEFAULT_TTL": "0"}, "the defaults: .*ttl must be"),
            ({"LEASEHOLD_PURPOSE_PAYOUT_TTTL": "1"}, "LEASEHOLD_PURPOSE_PAYOUT_TTTL: unknown"),
            ({"LEASEHOLD_PURPOSE_TTL": "1"}, "LEASEHOLD_PURPOSE_TTL: unknown"),
            (
                {"LEASEHOLD_PURPOSE_PAY_TTL": "1"},
                r"LEASEHOLD_PURPOSE_PAY_\*: unknown purpose \(known: deal, ",
            ),
            ({"LEASEHOLD_PURPOSE_PAYOUT_TTL": "-1"}, "ttl must be seconds"),
            ({"LEASEHOLD_PURPOSE_PAYOUT_TTL": "1e5h"}, "ttl must be seconds"),
            ({"LEASEHOLD_PURPOSE_PAYOUT_TTL": "25h"}, "24 hours"),
            ({"LEASEHOLD_PURPOSE_PAYOUT_TTL": ""}, "ttl must be seconds"),
            ({"LEASEHOLD_PURPOSE_PAYOUT_PATTERN": "payout"}, "must have the parameters of"),
        ],
        ids=repr,
    )
    def test_errors_are_reported_at_start(self, environ, told) -> None:
        with pytest.raises(InvalidRequest, match=told):
            Purposes.from_environ(environ, base=STANDARD)

    def test_all_errors_are_reported_together(self) -> None:
        with pytest.raises(InvalidRequest, match="the environment has 3 problems:") as caught:
            Purposes.from_environ(
                {
                    "LOCK_DEFAULT_TTL": "never",
                    "LEASEHOLD_PURPOSE_DEAL_TTL": "0",
                    "LEASEHOLD_PURPOSE_DEAL_COLOUR": "red",
                },
                base=STANDARD,
            )
        assert len(str(caught.value).splitlines()) == 4

    def test_is_not_read_by_the_library_itself(self, monkeypatch) -> None:
        code = "from leasehold.operations import STANDARD; print(STANDARD['payout'].ttl)"
        environ = {**os.environ, "LEASEHOLD_PURPOSE_PAYOUT_TTL": "1", "LOCK_DEFAULT_TTL": "1s"}
        ran = subprocess.run(
            [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
        )
        assert float(ran.stdout) == 60
