"""One speed figure and its target."""

import operator
from dataclasses import dataclass

COMPARISONS = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True)
class Figure:
    """One figure: what was measured, what it is compared with, and the target (a text such as ">= 3")."""

    name: str
    value: float
    unit: str
    ours: float | None = None
    reference: float | None = None
    target: str | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the value reaches the target; None where there is none."""
        if self.target is None:
            return None
        sign, limit = self.target.split()
        return bool(COMPARISONS[sign](self.value, float(limit)))
