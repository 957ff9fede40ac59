"""Reads a scrape as Prometheus does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


class Scrape:
    """`scrape["leasehold_losses_total", "lock", "", "taken"]`: the value, by label values in any order; 0 if there is none."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.labels: dict[str, set[frozenset[str]]] = {}
        self._values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.endswith("_created"):
                    continue
                self._values[sample.name, frozenset(sample.labels.items())] = sample.value
                self.labels.setdefault(sample.name, set()).add(frozenset(sample.labels))

    @classmethod
    def of(cls, registry: CollectorRegistry) -> Scrape:
        return cls(generate_latest(registry).decode())

    def value(self, name: str, **labels: str) -> float:
        """Of the sample with exactly these labels."""
        return self._values.get((name, frozenset(labels.items())), 0.0)

    def total(self, name: str, **labels: str) -> float:
        """Of all samples that have these labels and any others."""
        wanted = labels.items()
        return sum(value for (each, has), value in self._values.items() if each == name and wanted <= has)

    def label_names(self, name: str) -> set[str]:
        """Of a metric; it must be there, and its samples must agree."""
        assert name in self.labels, f"there is no {name}, only {sorted(self.labels)}"
        (names,) = self.labels[name]
        return set(names) - {"le"}

    def label_values(self) -> set[str]:
        return {value for _, has in self._values for _, value in has}
