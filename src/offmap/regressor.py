"""DiverseRegressor: many predictors that all explain the data, and how much they disagree about a new row."""

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal, Self, get_args, overload

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state

from offmap.activation import suited_activation
from offmap.arrays import Array, Data, Float, Key
from offmap.artifact import storable
from offmap.cache import keep_compiled_programs, make_room_for_programs
from offmap.checks import (
    chosen_by_name,
    is_number,
    is_whole_number,
    refuse_gaps,
    refuse_text_columns,
    target_as_numbers,
)
from offmap.console import progress_bar
from offmap.estimator import TableEstimator
from offmap.families import Posterior
from offmap.inference import METHODS, SMALL_TABLE, Method
from offmap.inputs import GivenRows, InputDistribution, PermutedColumns, UniformBox
from offmap.memory import FLOAT_BYTES, free_bytes
from offmap.model import Model
from offmap.network import Activation, Network
from offmap.noise import held_out_noise_std
from offmap.predictive import LOG_DENSITIES, epistemic_uncertainty, in_chunks, moments
from offmap.prior import GaussianPrior, Prior
from offmap.scaling import Scale

# Narrower than the paper's: on noisy tables the mean of its predictors overfits. See docs/design.md.
DEFAULT_PRIOR = GaussianPrior(std=0.4)
FIRST_ACTIVATION: dict[str, Activation] = {"auto": "relu", **{name: name for name in get_args(Activation)}}
INPUTS: dict[str, Callable[[Array], InputDistribution]] = {"box": UniformBox.around, "permuted": PermutedColumns}


@storable
class DiverseRegressor(RegressorMixin, TableEstimator):
    """A regressor that learns many predictors which all explain the data, and says where they disagree.

    Numbers go in and come out in the user's units; scaling happens inside.

    method: a key of `METHODS`, or a value such as `dataclasses.replace(METHODS["hmc"], chains=8)`.
    noise_std: the target's noise in its own unit, or "auto": estimated from residuals of held-out rows.
    hidden: the widths of the network's hidden layers. Without them there is one layer, as in the paper, of 50 units for
        tables of up to 1,500 rows and of 100 for larger ones.
    activation: what is between the layers: "relu", "gelu" (smooth), "tanh", or "auto": ReLU, but GELU for an ensemble
        where it predicts held-out rows clearly better. They are asked if the noise is "auto", too.
    prior: None for theta ~ N(0, 0.4^2 I), a `GaussianPrior`, or a `GaussianProcessPrior` (the FuNN methods only).
    ood_inputs: where predictors should differ: the "box" of the training rows, a number for the box widened by it,
        "permuted" columns of theirs, or rows of your own.
    n_draws: predictors behind every answer; methods with fewer members use all they have.
    verbose: show a progress bar when fitting takes more than two seconds.
    """

    def __init__(
        self,
        method: str | Method = "funn-hyvi",
        *,
        noise_std: float | Literal["auto"] = "auto",
        hidden: tuple[int, ...] | None = None,
        activation: Literal["auto", "relu", "gelu", "tanh"] = "auto",
        prior: Prior | None = None,
        ood_inputs: Literal["box", "permuted"] | float | ArrayLike = "box",
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
        with self._all_or_nothing(), progress_bar(self.verbose):
            rows = self._validated(X, y)
            network = self._network(rows[0])
            with _memory_errors_in_words(network):
                _refuse_too_large(method, network)
                self._fit(method, network, *rows)
        return self

    def _network(self, X: np.ndarray) -> Network:
        """What learns the rows `X`."""
        by_rows = (50,) if len(X) <= SMALL_TABLE else (100,)
        hidden = by_rows if self.hidden is None else tuple(self.hidden)
        activation = chosen_by_name(self.activation, FIRST_ACTIVATION, "activation")
        return Network(n_inputs=X.shape[1], hidden=hidden, activation=activation)

    def _fit(self, method: Method, network: Network, X: np.ndarray, y: np.ndarray) -> None:
        keep_compiled_programs()
        make_room_for_programs()
        x_scale, y_scale = Scale.of(X), Scale.of(y)
        data = Data(X=jnp.asarray(x_scale.standardise(X)), y=jnp.asarray(y_scale.standardise(y)))
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        noise_key, fit_key = jax.random.split(jax.random.key(seed))
        model = Model(
            network=network,
            prior=DEFAULT_PRIOR if self.prior is None else self.prior,
            noise_std=jnp.ones(()),
            inputs=self._ood_inputs(x_scale, data),
        )
        if isinstance(self.noise_std, str):
            model, noise_std = self._from_held_out_rows(noise_key, method, model, data)
        else:
            noise_std = float(self.noise_std) / float(y_scale.std)
        model = replace(model, noise_std=jnp.asarray(noise_std, jnp.float32))
        fit = method.fit(fit_key, model, data)
        self.method_, self.network_, self.posterior_, self.inputs_ = method, model.network, fit.posterior, model.inputs
        self.x_scale_, self.y_scale_, self.noise_std_ = x_scale, y_scale, noise_std * float(y_scale.std)
        self.trace_ = {name: np.asarray(values) for name, values in fit.trace.items()}
        self.draw_seed_ = seed

    def _from_held_out_rows(self, key: Key, method: Method, model: Model, data: Data) -> tuple[Model, float]:
        """The model with the activation that suits the rows, if it may be chosen, and the noise that it then leaves."""
        noise_std = held_out_noise_std(key, model, data)
        if self.activation != "auto" or not method.may_be_smooth:
            return model, noise_std
        activation = suited_activation(key, model, noise_std, data)
        if activation == model.network.activation:
            return model, noise_std
        model = replace(model, network=replace(model.network, activation=activation))
        return model, held_out_noise_std(key, model, data)

    def _validated(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """The training rows as float64, or an error in the user's words."""
        noise, prior = self.noise_std, self.prior
        if not (noise == "auto" if isinstance(noise, str) else is_number(noise) and 0 < noise < math.inf):
            raise ValueError(f"noise_std is {noise!r}, but it must be 'auto' or a positive number.")
        listed = isinstance(self.hidden, tuple | list) and all(map(is_whole_number, self.hidden))
        if not (listed or self.hidden is None):
            raise ValueError(f"hidden is {self.hidden!r}, but it must list the widths of the layers, such as (50,).")
        if prior is not None and not hasattr(prior, "sample_predictors"):
            raise ValueError(f"prior is {prior!r}, but it must be None, a GaussianPrior or a GaussianProcessPrior.")
        if not (is_whole_number(self.n_draws) and self.n_draws >= 2):
            raise ValueError(f"n_draws is {self.n_draws!r}, but disagreement needs a whole number of at least 2.")
        return self._training_rows(X, y, at_least=2)

    def _ood_inputs(self, x_scale: Scale, data: Data) -> InputDistribution:
        if is_number(self.ood_inputs):
            return self._widened_box(data)
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

    def _widened_box(self, data: Data) -> UniformBox:
        widen = float(self.ood_inputs)  # type: ignore[arg-type]
        if not 0 < widen < math.inf:
            raise ValueError(f"ood_inputs is {widen:g}, but a box can only be widened by a positive number.")
        return UniformBox.around(data.X, widen)

    def _rows(self, X: Any) -> np.ndarray:
        """New rows, standardised."""
        X = self._new_rows(X)
        return self.x_scale_.standardise(X)

    def _thetas(self, n_draws: int | None = None) -> Float[Array, "s p"]:
        members = self.posterior_.n_members
        if n_draws is None:
            n_draws = self.n_draws if members is None else min(self.n_draws, members)
        if n_draws < 1:
            raise ValueError(f"n_draws is {n_draws}, but it must be at least 1.")
        return _sample(self.posterior_, jax.random.key(self.draw_seed_), n_draws)

    def _moments(self, X: Any, at_most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and epistemic variance of new rows, in target units, over at most so many draws."""
        X = self._rows(X)
        thetas = self._thetas()[:at_most]
        result = in_chunks(self.network_, thetas, X, moments)
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


def _refuse_too_large(method: Method, network: Network) -> None:
    """An error now, where the system would end the process in the middle of the fit."""
    needed, free = FLOAT_BYTES * method.networks_at_once * network.n_parameters, free_bytes()
    if free is not None and needed > free:
        raise MemoryError(f"about {needed / 2**30:.0f} GB are needed, and {free / 2**30:.0f} GB are free")


@contextlib.contextmanager
def _memory_errors_in_words(network: Network) -> Iterator[None]:
    """What is known are bytes; say what made them so many, and what to do."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as problem:
        if not isinstance(problem, MemoryError) and "RESOURCE_EXHAUSTED" not in str(problem):
            raise
        raise MemoryError(
            f"The fit does not fit into memory: a network of {network.n_inputs} columns and hidden layers of "
            f"{', '.join(map(str, network.hidden))} units has {network.n_parameters:,} parameters, and a method holds "
            f"hundreds of such networks at once ({problem}). Use fewer hidden units, fewer columns, or the method "
            "'ensemble', which holds ten."
        ) from None


@functools.partial(jax.jit, static_argnames=("n",))
def _sample(posterior: Posterior, key: Key, n: int) -> Float[Array, "n p"]:
    return posterior.sample(key, n)


def _itself(draws: Float[Array, "s n"]) -> Float[Array, "s n"]:
    return draws
