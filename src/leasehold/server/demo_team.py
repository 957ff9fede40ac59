"""Who is in the demo's team, and how to sign in as each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Person:
    """One of the team. The password is no secret."""

    name: str
    role: Literal["owner", "editor", "viewer"]

    @property
    def email(self) -> str:
        """To sign in with."""
        return f"{self.name.lower()}@demo.example"

    @property
    def password(self) -> str:
        """To sign in with."""
        return f"demo-{self.name.lower()}"


TEAM = (Person("Olga", "owner"), Person("Ana", "editor"), Person("Ben", "editor"), Person("Vera", "viewer"))
