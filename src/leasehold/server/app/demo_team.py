"""The users of the demo. The supervisor prints them, so they are apart from what needs a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class DemoUser:
    """One of the team. The password is public."""

    name: str
    role: Literal["owner", "editor", "viewer"]

    @property
    def email(self) -> str:
        """The address to log in with."""
        return f"{self.name.lower()}@demo.example"

    @property
    def password(self) -> str:
        """The password to log in with."""
        return f"demo-{self.name.lower()}"


TEAM = (
    DemoUser("Olga", "owner"),
    DemoUser("Ana", "editor"),
    DemoUser("Ben", "editor"),
    DemoUser("Vera", "viewer"),
)
