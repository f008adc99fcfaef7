"""DiverseRegressor and OODDetector: the only file that knows scikit-learn's base classes."""

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal, Self, overload

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OutlierMixin, RegressorMixin, clone
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from offmap.arrays import Array, Data, Float, Key
from offmap.checks import (
    chosen_by_name,
    is_number,
    is_whole_number,
    refuse_gaps,
    refuse_other_columns,
    refuse_text_columns,
    target_as_numbers,
)
from offmap.console import progress_bar
from offmap.families import Posterior
from offmap.inference import METHODS, Method
from offmap.inputs import GivenRows, InputDistribution, PermutedColumns, UniformBox
from offmap.model import Model
from offmap.network import Network
from offmap.noise import held_out_noise_std
from offmap.ood import conformal_p_values, conformal_threshold
from offmap.predictive import LOG_DENSITIES, epistemic_uncertainty, in_chunks, moments
from offmap.prior import GaussianPrior, Prior
from offmap.scaling import Scale

CALIBRATIONS = ("held-out", "cross-fit")
HELD_OUT_SHARE, N_FOLDS, ENOUGH_HELD_OUT = 0.2, 5, 200
INPUTS: dict[str, Callable[[Array], InputDistribution]] = {"box": UniformBox.around, "permuted": PermutedColumns}


@functools.partial(jax.jit, static_argnames=("n",))
def _sample(posterior: Posterior, key: Key, n: int) -> Float[Array, "n p"]:
    return posterior.sample(key, n)


@contextlib.contextmanager
def _all_or_nothing(estimator: BaseEstimator) -> Iterator[None]:
    """Undo every change to the estimator when the block fails or is interrupted."""
    before = estimator.__dict__.copy()
    try:
        yield
    except BaseException:
        estimator.__dict__ = before
        raise


def _training_rows(estimator: BaseEstimator, X: Any, y: Any, at_least: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows to learn from as float64, or an error in the user's words. Notes the columns on the estimator."""
    refuse_text_columns(X)
    if y is not None:
        y = target_as_numbers(y, X)
    X, y = validate_data(estimator, X, y, dtype=np.float64, ensure_min_samples=at_least, ensure_all_finite=False)
    refuse_gaps(X, "X", getattr(estimator, "feature_names_in_", None))
    return X, y


def _new_rows(estimator: BaseEstimator, X: Any) -> np.ndarray:
    """New rows as float64, with the columns of the fit, or an error in the user's words."""
    check_is_fitted(estimator)
    refuse_text_columns(X)
    names = getattr(estimator, "feature_names_in_", None)
    refuse_other_columns(X, type(estimator).__name__, estimator.n_features_in_, names)
    X = validate_data(estimator, X, dtype=np.float64, reset=False, ensure_all_finite=False)
    refuse_gaps(X, "X", names)
    return X


class DiverseRegressor(RegressorMixin, BaseEstimator):
    """A regressor that learns many predictors which all explain the data, and says where they disagree.

    Numbers go in and come out in the user's units; scaling happens inside.

    method: a key of `METHODS`, or a value such as `dataclasses.replace(METHODS["hmc"], chains=8)`.
    noise_std: the target's noise in its own unit, or "auto": estimated from residuals of held-out rows.
    hidden, activation: the network's hidden layers, and "relu" or "tanh" between them.
    prior: None for theta ~ N(0, 0.5 I), a `GaussianPrior`, or a `GaussianProcessPrior` (the FuNN methods only).
    ood_inputs: where predictors should differ: "box" of the training rows, "permuted" columns of theirs, or rows.
    n_draws: predictors behind every answer; methods with fewer members use all they have.
    verbose: show a progress bar when fitting takes more than two seconds.
    """

    def __init__(
        self,
        method: str | Method = "funn-hyvi",
        *,
        noise_std: float | Literal["auto"] = "auto",
        hidden: tuple[int, ...] = (50,),
        activation: Literal["relu", "tanh"] = "relu",
        prior: Prior | None = None,
        ood_inputs: Literal["box", "permuted"] | ArrayLike = "box",
        n_draws: int = 1000,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.noise_std = noise_std
        self.hidden = hidden
        self.activation = activation
        self.prior = prior
        self.ood_inputs = ood_inputs
        self.n_draws = n_draws
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows `X` and their targets `y`. A fit that fails or is interrupted changes nothing."""
        named = isinstance(self.method, str) or not hasattr(self.method, "fit")
        method: Any = chosen_by_name(self.method, METHODS, "method") if named else self.method
        with _all_or_nothing(self), progress_bar(self.verbose):
            self._fit(method, *self._validated(X, y))
        return self

    def _fit(self, method: Method, X: np.ndarray, y: np.ndarray) -> None:
        x_scale, y_scale = Scale.of(X), Scale.of(y)
        data = Data(X=jnp.asarray(x_scale.standardise(X)), y=jnp.asarray(y_scale.standardise(y)))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        noise_key, fit_key = jax.random.split(jax.random.key(seed))
        model = Model(
            network=Network(n_inputs=X.shape[1], hidden=tuple(self.hidden), activation=self.activation),
            prior=GaussianPrior() if self.prior is None else self.prior,
            noise_std=jnp.ones(()),
            inputs=self._ood_inputs(x_scale, data),
        )
        if isinstance(self.noise_std, str):
            noise_std = held_out_noise_std(noise_key, model, data)
        else:
            noise_std = float(self.noise_std / y_scale.std)
        model = Model(
            network=model.network, prior=model.prior, noise_std=jnp.asarray(noise_std, jnp.float32), inputs=model.inputs
        )
        fit = method.fit(fit_key, model, data)
        self.method_, self.network_, self.posterior_, self.inputs_ = method, model.network, fit.posterior, model.inputs
        self.x_scale_, self.y_scale_, self.noise_std_ = x_scale, y_scale, noise_std * float(y_scale.std)
        self.trace_ = {name: np.asarray(values) for name, values in fit.trace.items()}
        self.draw_seed_ = seed

    def _validated(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """The training rows as float64, or an error in the user's words."""
        noise, prior = self.noise_std, self.prior
        if not (noise == "auto" if isinstance(noise, str) else is_number(noise) and 0 < noise < math.inf):
            raise ValueError(f"noise_std is {noise!r}, but it must be 'auto' or a positive number.")
        if not (isinstance(self.hidden, tuple | list) and all(map(is_whole_number, self.hidden))):
            raise ValueError(f"hidden is {self.hidden!r}, but it must list the widths of the layers, such as (50,).")
        if prior is not None and not hasattr(prior, "sample_predictors"):
            raise ValueError(f"prior is {prior!r}, but it must be None, a GaussianPrior or a GaussianProcessPrior.")
        if not (is_whole_number(self.n_draws) and self.n_draws >= 2):
            raise ValueError(f"n_draws is {self.n_draws!r}, but disagreement needs a whole number of at least 2.")
        return _training_rows(self, X, y, at_least=2)

    def _ood_inputs(self, x_scale: Scale, data: Data) -> InputDistribution:
        if isinstance(self.ood_inputs, str):
            return chosen_by_name(self.ood_inputs, INPUTS, "ood_inputs")(data.X)
        refuse_text_columns(self.ood_inputs, "ood_inputs")
        rows = np.asarray(self.ood_inputs, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != data.X.shape[1] or len(rows) == 0:
            raise ValueError(
                f"ood_inputs has shape {rows.shape}, but it must be rows with the {data.X.shape[1]} columns of X."
            )
        refuse_gaps(rows, "ood_inputs")
        return GivenRows(rows=jnp.asarray(x_scale.standardise(rows)))

    def _rows(self, X: Any) -> np.ndarray:
        """New rows, standardised."""
        X = _new_rows(self, X)
        return self.x_scale_.standardise(X)

    def _thetas(self, n_draws: int | None = None) -> Float[Array, "s p"]:
        members = self.posterior_.n_members
        if n_draws is None:
            n_draws = self.n_draws if members is None else min(self.n_draws, members)
        if n_draws < 1:
            raise ValueError(f"n_draws is {n_draws}, but it must be at least 1.")
        return _sample(self.posterior_, jax.random.key(self.draw_seed_), n_draws)

    def _moments(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Mean and epistemic variance of new rows, in target units."""
        X = self._rows(X)
        result = in_chunks(self.network_, self._thetas(), X, moments)
        return self.y_scale_.restore(result.mean), np.asarray(result.variance, np.float64) * self.y_scale_.std**2

    @overload
    def predict(self, X: Any, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(self, X: Any, return_std: bool = False) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The mean of the predictors; with `return_std` also the total std: their spread and the noise together."""
        mean, variance = self._moments(X)
        if return_std:
            return mean, np.sqrt(variance + self.noise_std_**2)
        return mean

    def predict_draws(self, X: Any, n_draws: int | None = None) -> np.ndarray:
        """The prediction of every predictor, shape (draws, rows). `n_draws` as the estimator's, unless given."""
        X = self._rows(X)
        return self.y_scale_.restore(in_chunks(self.network_, self._thetas(n_draws), X, _itself))

    def epistemic_std(self, X: Any) -> np.ndarray:
        """The spread of the predictors: how much they disagree, in target units."""
        return np.sqrt(self._moments(X)[1])

    def uncertainty(self, X: Any) -> np.ndarray:
        """U(x) = 1/2 ln(2 pi e var), in nats: the paper's score. Larger is further off the map."""
        return epistemic_uncertainty(self._moments(X)[1])

    def log_predictive_density(self, X: Any, y: ArrayLike) -> np.ndarray:
        """ln p(y | x) of every row, in nats, for a target in its own unit."""
        X = self._rows(X)
        y = target_as_numbers(y, X).ravel()
        y_std = float(self.y_scale_.std)
        noise_std = np.full(len(X), self.noise_std_ / y_std, np.float32)
        log_density = LOG_DENSITIES[self.method_.density]
        standardised = in_chunks(self.network_, self._thetas(), X, log_density, self.y_scale_.standardise(y), noise_std)
        return np.asarray(standardised, np.float64) - math.log(y_std)

    def save(self, path: Any, overwrite: bool = False) -> None:
        """Write a model directory that `offmap.load` reads back to the same numbers."""
        from offmap.artifact import save

        save(self, path, overwrite)


def _itself(draws: Float[Array, "s n"]) -> Float[Array, "s n"]:
    return draws


class OODDetector(OutlierMixin, BaseEstimator):
    """Flags rows that are too far from what a regressor learned, at a false-alarm rate that holds.

    estimator: a `DiverseRegressor`, fitted or not: it is cloned and fitted anew. None for the default one.
    false_alarm_rate: the share of ordinary new rows that may be flagged.
    calibration: "held-out" sets a fifth of the rows aside; "cross-fit" leaves every fifth out in turn; "auto" picks.
    random_state: which rows are set aside, and the seed of a regressor that has none of its own.

    The scored predictors never learned from the rows they are compared with. Held-out, the promise is exact: a new row
    exchangeable with the training rows is flagged with probability at most `false_alarm_rate`. Cross-fitted, a row is
    scored by the most confident of five regressors, and the rate is at most twice that plus sqrt(2 / rows) in the worst
    case, and in practice below it. See docs/design.md.
    """

    def __init__(
        self,
        estimator: DiverseRegressor | None = None,
        *,
        false_alarm_rate: float = 0.05,
        calibration: Literal["auto", "held-out", "cross-fit"] = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.false_alarm_rate = false_alarm_rate
        self.calibration = calibration
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the regressor on some rows, and set the alarm by the others."""
        if not (is_number(self.false_alarm_rate) and 0 < self.false_alarm_rate < 1):
            raise ValueError(f"false_alarm_rate is {self.false_alarm_rate!r}, but it must lie between 0 and 1.")
        if self.calibration not in ("auto", *CALIBRATIONS):
            raise ValueError(f"calibration is {self.calibration!r}, but it must be auto, {' or '.join(CALIBRATIONS)}.")
        with _all_or_nothing(self):
            self._fit(*_training_rows(self, X, y, at_least=3))
        return self

    def fit_predict(self, X: Any, y: Any) -> np.ndarray:
        """`fit` to these rows, then `predict` them."""
        return self.fit(X, y).predict(X)

    def _fit(self, X: np.ndarray, y: np.ndarray) -> None:
        regressor = DiverseRegressor() if self.estimator is None else self.estimator
        if not isinstance(regressor, DiverseRegressor):
            raise ValueError(f"estimator is {regressor!r}, but it must be a DiverseRegressor.")
        regressor, fitted, scores = clone(regressor), [], []
        if regressor.random_state is None:
            regressor.random_state = check_random_state(self.random_state).randint(2**31 - 1)
        for learned, kept_back in self._splits(len(X)):
            fitted.append(clone(regressor).fit(X[learned], y[learned]))
            scores.append(fitted[-1].uncertainty(X[kept_back]))
        self.estimators_, self.calibration_scores_ = fitted, np.sort(np.concatenate(scores))
        if self.calibration_scores_[-1] == -math.inf:
            raise ValueError(
                "All predictors agree on every calibration row, so their disagreement cannot tell rows apart. Use a "
                "method with at least 2 members, and at least one hidden layer."
            )
        threshold = conformal_threshold(self.calibration_scores_, self.false_alarm_rate)
        self.offset_ = -threshold
        if threshold == math.inf:
            warnings.warn(
                f"Nothing can be flagged: {len(self.calibration_scores_)} calibration rows are too few for a "
                f"false_alarm_rate of {self.false_alarm_rate:g}. It takes at least "
                f"{math.ceil(1 / self.false_alarm_rate) - 1} of them, or a larger rate.",
                stacklevel=3,
            )

    def _splits(self, n_rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """(rows to learn, rows to calibrate on): one pair when a fifth of the rows is enough, else five."""
        random = check_random_state(self.random_state)
        kind = self.calibration
        if kind == "auto":
            enough = HELD_OUT_SHARE * n_rows >= max(ENOUGH_HELD_OUT, 10 / self.false_alarm_rate)
            kind = "held-out" if enough else "cross-fit"
        if kind == "held-out":
            return [train_test_split(np.arange(n_rows), test_size=HELD_OUT_SHARE, random_state=random)]
        return list(KFold(min(N_FOLDS, n_rows), shuffle=True, random_state=random).split(np.arange(n_rows)))

    @property
    def calibration_(self) -> str:
        """Which calibration was used: "held-out" or "cross-fit"."""
        return "held-out" if len(self.estimators_) == 1 else "cross-fit"

    def score_samples(self, X: Any) -> np.ndarray:
        """-U(x), in nats: smaller is further off the map (scikit-learn's sign). U is that of the most confident
        regressor, where cross-fitting made several."""
        X = _new_rows(self, X)
        return -np.min([regressor.uncertainty(X) for regressor in self.estimators_], axis=0)

    def decision_function(self, X: Any) -> np.ndarray:
        """`score_samples` minus `offset_`: negative for flagged rows."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> np.ndarray:
        """+1 for rows on the map, -1 for rows off it."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def p_values(self, X: Any) -> np.ndarray:
        """Conformal p-values, in (0, 1]: how unusual a row's U is among rows that the regressor did not learn from."""
        return conformal_p_values(-self.score_samples(X), self.calibration_scores_)

    def verdicts(self, X: Any) -> dict[str, np.ndarray]:
        """Every answer about every row, by name: prediction, std_epistemic, std_total (target units), ood_score (U,
        nats), p_value and is_ood. The prediction pools the draws of all regressors."""
        X = _new_rows(self, X)
        mean, variance = np.array([regressor._moments(X) for regressor in self.estimators_]).transpose(1, 0, 2)
        epistemic = variance.mean(axis=0) + mean.var(axis=0)
        noise = np.mean([regressor.noise_std_**2 for regressor in self.estimators_])
        score = np.min(epistemic_uncertainty(variance), axis=0)
        return {
            "prediction": mean.mean(axis=0),
            "std_epistemic": np.sqrt(epistemic),
            "std_total": np.sqrt(epistemic + noise),
            "ood_score": score,
            "p_value": conformal_p_values(score, self.calibration_scores_),
            "is_ood": -score - self.offset_ < 0,
        }

    def save(self, path: Any, overwrite: bool = False) -> None:
        """Write a model directory that `offmap.load` reads back to the same numbers."""
        from offmap.artifact import save

        save(self, path, overwrite)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
