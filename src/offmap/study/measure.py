"""What is measured of one fit: separation, error, entropy and cost, under nu and under a shift."""

import functools
import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from sklearn.model_selection import train_test_split

from offmap.arrays import Array, Float, Key
from offmap.divergences import Evaluation, entropy_knn, predictor_entropy
from offmap.families import DropoutMasks
from offmap.inference.ensemble import Ensemble
from offmap.inputs import InputDistribution, PermutedColumns, UniformBox
from offmap.metrics import auc, risk_coverage_area, rmse, spearman, true_positive_rates
from offmap.objectives import FLOOR
from offmap.regressor import DiverseRegressor
from offmap.scaling import Scale
from offmap.study.baselines import Scorer
from offmap.study.record import FALSE_POSITIVE_RATES, QUANTILE_LEVELS, Record

N_OOD, N_DRAWS, N_INPUT_SETS = 10_000, 1000, 100
TEST_SHARE, SPLIT_SEED = 0.1, 42  # the paper's split, the same for every seed
MANY_TEST_SHARE = 0.2  # of splits that differ from seed to seed
GRID_POINTS = 200

Fitted = TypeVar("Fitted")


class Split(NamedTuple):
    """Training and test rows, in the user's units."""

    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray) -> "Split":
        """The fixed split of a table: a tenth of its rows is for testing."""
        return cls(*train_test_split(X, y, test_size=TEST_SHARE, random_state=SPLIT_SEED))

    @classmethod
    def at_random(cls, X: np.ndarray, y: np.ndarray, seed: int) -> "Split":
        """One of many splits of a table: a fifth of its rows is for testing."""
        return cls(*train_test_split(X, y, test_size=MANY_TEST_SHARE, random_state=seed))


def fitted(fit: Callable[[np.ndarray, np.ndarray], Fitted], split: Split) -> tuple[Fitted, Record]:
    """What `fit` makes of the training rows, and what that cost and complained of."""
    clock, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        scorer = fit(split.X_train, split.y_train)
    cost = {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - processor}
    trace = getattr(scorer, "trace_", {})
    return scorer, cost | {
        "warnings": [str(complaint.message) for complaint in complaints],
        "rhat": float(np.max(trace["rhat_predictions"])) if "rhat_predictions" in trace else None,
        "ess": float(np.min(trace["ess_predictions"])) if "ess_predictions" in trace else None,
        "noise_std": getattr(scorer, "noise_std_", None),
    }


def separation(scorer: Scorer, split: Split, nu: UniformBox, seed: int) -> Record:
    """How U tells rows of the table from rows of nu and from permuted columns. All methods see the same such rows."""
    nu_key, permuted_key = jax.random.split(jax.random.key(seed))
    scale = Scale.of(split.X_train)
    permuted = PermutedColumns(jnp.asarray(scale.standardise(split.X_train)))
    u_train, u_test, u_ood, u_permuted = (
        scorer.uncertainty(rows)
        for rows in (
            split.X_train,
            split.X_test,
            scale.restore(np.asarray(nu.sample(nu_key, N_OOD))),
            scale.restore(np.asarray(permuted.sample(permuted_key, N_OOD))),
        )
    )
    every = np.concatenate([u_train, u_test])
    return {
        "auc": auc(every, u_ood),
        "auc_test": auc(u_test, u_ood),
        "auc_permuted": auc(u_test, u_permuted),
        "u_train": quantiles(u_train),
        "u_test": quantiles(u_test),
        "u_ood": quantiles(u_ood),
        "roc": rounded(true_positive_rates(every, u_ood, np.array(FALSE_POSITIVE_RATES))),
    }


def quantiles(values: np.ndarray) -> list[float]:
    """The values at `QUANTILE_LEVELS`, to six digits. No value is interpolated, since some may be -inf."""
    places = np.rint(np.array(QUANTILE_LEVELS) * (len(values) - 1)).astype(int)
    return rounded(np.sort(values)[places])


def rounded(values: np.ndarray) -> list[float]:
    """Every value to six significant digits."""
    return [float(f"{value:.6g}") for value in values]


def accuracy(scorer: Any, split: Split) -> Record:
    """Error and density of the test rows, in target units; nothing for a score that does not predict."""
    if not hasattr(scorer, "predict"):
        return {}
    X, y = split.X_test, split.y_test
    mean = scorer.predict(X)
    found = {"rmse": rmse(y, mean), "lpp": float(np.mean(scorer.log_predictive_density(X, y)))}
    if isinstance(getattr(scorer, "method_", None), Ensemble):
        std = scorer.epistemic_std(X)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_density = -0.5 * ((y - mean) / std) ** 2 - np.log(std) - 0.5 * math.log(2 * math.pi)
        found["lpp_variance_only"] = float(np.mean(log_density))
    return found


def entropies(model: DiverseRegressor, n_inputs: int, seed: int) -> Record:
    """Differential entropy of theta and of the predictors, for standardised inputs and target."""
    draw_key, input_key = jax.random.split(jax.random.key(seed))
    posterior, of_theta = model.posterior_, None
    if isinstance(posterior, DropoutMasks):
        # They are finitely many thetas, which have no differential entropy, and as few functions. The paper's number is
        # that of values which all have masks of their own.
        predictors = Partial(DropoutMasks.with_fresh_masks, posterior, jax.random.split(draw_key, N_DRAWS))
    else:
        thetas = posterior.sample(draw_key, min(N_DRAWS, posterior.n_members or N_DRAWS))
        of_theta = float(entropy_knn(thetas, floor=FLOOR))
        predictors = Partial(model.network_.draws, thetas)
    of_predictors = _predictor_entropy(input_key, predictors, model.inputs_, n_inputs)
    return {"entropy_parameter": of_theta, "entropy_predictor": float(of_predictors)}


@functools.partial(jax.jit, static_argnames=("n_inputs",))
def _predictor_entropy(key: Key, predictors: Partial, inputs: InputDistribution, n_inputs: int) -> Float[Array, ""]:
    at = Evaluation(n_inputs=n_inputs, n_repeats=N_INPUT_SETS)
    return predictor_entropy(key, predictors, inputs, at, floor=FLOOR)


def bands(model: DiverseRegressor, box: tuple[float, float]) -> Record:
    """Mean and epistemic std along the only column: a panel of the paper's figure 1."""
    x = np.linspace(*box, GRID_POINTS)
    mean, std = model.predict(x[:, None]), model.epistemic_std(x[:, None])
    return {"x": rounded(x), "mean": rounded(mean), "std": rounded(std)}


def shift(scorer: Any, split: Split, X_out: np.ndarray, y_out: np.ndarray) -> Record:
    """How U tells rows held out by a rule from test rows, how much worse they are predicted, and how U ranks errors."""
    u_in, u_out = scorer.uncertainty(split.X_test), scorer.uncertainty(X_out)
    found: Record = {"auc": auc(u_in, u_out), "n_out": len(X_out)}
    of_errors = ("rmse_in", "rmse_out", "error_ratio", "spearman", "aurc", "aurc_random", "aurc_oracle")
    if not hasattr(scorer, "predict"):
        return found | dict.fromkeys(of_errors)
    inside, outside = scorer.predict(split.X_test) - split.y_test, scorer.predict(X_out) - y_out
    rmse_in, rmse_out = rmse(inside, np.zeros(1)), rmse(outside, np.zeros(1))
    scores, errors = np.concatenate([u_in, u_out]), np.concatenate([inside, outside]) ** 2
    areas = (risk_coverage_area(by, errors) for by in (scores, np.zeros(len(errors)), errors))
    values = (rmse_in, rmse_out, rmse_out / rmse_in, spearman(scores, errors), *areas)
    return found | dict(zip(of_errors, values, strict=True))
