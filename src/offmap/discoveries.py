"""The false-discovery rate over a table of any length: p-values are counted as they pass, not kept."""

from collections import Counter

import numpy as np
from jaxtyping import Float


class CountedPValues:
    """How often each p-value was seen. Conformal ones take few values: one for each calibration row, and one more."""

    def __init__(self) -> None:
        self.counts: Counter[float] = Counter()

    def add(self, p_values: Float[np.ndarray, " n"]) -> None:
        """Count more of them."""
        values, counts = np.unique(p_values, return_counts=True)
        self.counts.update(dict(zip(values.tolist(), counts.tolist(), strict=True)))

    def threshold(self, false_discovery_rate: float) -> float:
        """Benjamini and Hochberg's: flag rows whose p-value is at most this, and of those flagged an expected share of
        at most `false_discovery_rate` is ordinary. 0, so that nothing is flagged, where no threshold achieves that.

            max of the p seen for which p * m / #{p_i <= p} <= rate,    m p-values in all

        >>> counted = CountedPValues()
        >>> counted.add(np.array([0.01, 0.02, 0.5, 0.9]))
        >>> counted.threshold(0.05)
        0.02
        """
        values = np.array(sorted(self.counts))
        at_most = np.cumsum([self.counts[value] for value in values.tolist()])
        achieved = values * (at_most[-1] / at_most) <= false_discovery_rate
        return float(values[achieved][-1]) if achieved.any() else 0.0
