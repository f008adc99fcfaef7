"""Data to try things on."""

import numpy as np


def wave(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The paper's synthetic table: 120 rows in two patches, y = cos(4 (x + 0.2)) + N(0, 0.1^2).

    x is uniform on [-1, -0.5] and [0.5, 1]; nothing is known between and beyond. The paper's nu is uniform on [-4, 2].
    """
    random = np.random.default_rng(seed)
    x = random.uniform(0.5, 1.0, 120) * random.choice([-1.0, 1.0], 120)
    return x[:, None], np.cos(4 * (x + 0.2)) + 0.1 * random.standard_normal(120)
