"""Every method in METHODS, through one table: what each recovers, and what it promises alike."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offmap.arrays import Array, Batch, Data, Key
from offmap.families import MeanField, Posterior
from offmap.inference import METHODS, PAPER_METHODS, PAPER_METHODS_LARGE, Fit, Method
from offmap.inference.ensemble import Ensemble
from offmap.inference.variational import Variational
from offmap.model import Model
from offmap.objectives import Comparison
from offmap.optimize import Training
from offmap.prior import GaussianProcessPrior
from offmap.schedules import Constant, Cosine, Plateau
from tests.toy_posteriors import NOISE_STD, conjugate, shrunk, small_problem

SHORT = Training(learning_rate=0.02, batch_size=100, schedule=Cosine(steps=1500))
# With as many inputs as parameters, theta and its values at the inputs determine each other, and the divergence of
# predictors is that of parameters. (With more, the values fill a subspace, and eq. 5 counts dimensions it has not.)
AS_MANY = Comparison(n_inputs=3)
NO_WEIGHT: dict[str, Any] = {"prior_weight": 0.0, "prior_weight_by_noise": 0.0}
RECOVER: dict[str, dict[str, Any]] = {
    "mfvi": {"training": SHORT},
    "funn-mfvi": {"training": SHORT, "comparison": AS_MANY, **NO_WEIGHT, "n_divergence_draws": 400},
    "nn-hyvi": {"training": SHORT, "n_divergence_draws": 400},
    "funn-hyvi": {"training": SHORT, "comparison": AS_MANY, **NO_WEIGHT, "n_divergence_draws": 400},
}
DO_NOT_RECOVER = {
    "ensemble": "every member converges to the one least-squares solution: its spread is that of unfinished training",
    "mc-dropout": "a linear predictor has no hidden unit to drop: it is a single network",
}


def test_every_method_is_judged() -> None:
    assert {"hmc", *RECOVER, *DO_NOT_RECOVER} == set(METHODS) == set(PAPER_METHODS) == set(PAPER_METHODS_LARGE)


@pytest.mark.parametrize("name", RECOVER)
def test_variational_methods_recover_the_exact_posterior(name: str) -> None:
    problem = conjugate(correlation=0.0)
    method = replace(METHODS[name], **RECOVER[name])
    thetas = np.asarray(
        method.fit(jax.random.key(0), problem.model, problem.data).posterior.sample(jax.random.key(1), 4000)
    )
    exact_std = np.sqrt(np.diag(problem.covariance))
    # Closed form for mfvi; the k-NN gradient of the others is noisy, which leaves about a tenth of a std.
    slack = 0.05 if name == "mfvi" else 0.15
    np.testing.assert_allclose((thetas.mean(axis=0) - problem.mean) / exact_std, 0, atol=slack)
    np.testing.assert_allclose(thetas.std(axis=0) / exact_std, 1, atol=slack)


def test_mean_field_finds_the_best_factorised_gaussian_where_the_posterior_is_correlated() -> None:
    problem = conjugate(correlation=0.8)
    fit = replace(METHODS["mfvi"], training=SHORT).fit(jax.random.key(0), problem.model, problem.data)
    # Known: the mean is exact, and the precision is the diagonal of the exact precision.
    best_std = 1 / np.sqrt(np.diag(np.linalg.inv(problem.covariance)))
    assert isinstance(fit.posterior, MeanField)
    np.testing.assert_allclose(np.asarray(fit.posterior.mean), problem.mean, atol=0.05 * best_std.max())
    np.testing.assert_allclose(np.asarray(fit.posterior.std), best_std, rtol=0.05)


@pytest.mark.parametrize(("name", "reason"), DO_NOT_RECOVER.items())
def test_methods_without_a_posterior_find_one_solution_of_the_linear_problem(name: str, reason: str) -> None:
    problem = conjugate(correlation=0.0)
    training = Training(learning_rate=0.02, batch_size=100, schedule=Cosine(steps=1500))
    settings = {"training": training} | ({"decay": 0.0} if name == "mc-dropout" else {})
    thetas = np.asarray(
        replace(METHODS[name], **settings)
        .fit(jax.random.key(0), problem.model, problem.data)
        .posterior.sample(jax.random.key(1), 10)
    )
    design = np.column_stack([problem.data.X, np.ones(48)])
    least_squares = np.linalg.lstsq(design, np.asarray(problem.data.y), rcond=None)[0]
    np.testing.assert_allclose(thetas, np.tile(least_squares, (10, 1)), atol=0.01 * NOISE_STD, err_msg=reason)


@pytest.fixture(scope="module")
def small() -> tuple[Model, Data]:
    return small_problem()


def draws_of(posterior: Posterior, key: Key) -> Array:
    return posterior.sample(key, 6)


@pytest.mark.filterwarnings("ignore:The (chains|populations) have not mixed")
@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_same_key_same_numbers_other_key_others(method: Method, small: tuple[Model, Data]) -> None:
    method, key = shrunk(method), jax.random.key(1)
    first, again, other = (
        draws_of(method.fit(fit_key, *small).posterior, key) for fit_key in (key, key, jax.random.key(2))
    )
    assert first.shape == (6, small[0].network.n_parameters)
    assert jnp.array_equal(first, again)
    assert not jnp.any(jnp.all(first == other, axis=1))


@pytest.mark.filterwarnings("ignore:The chains have not mixed")
@pytest.mark.parametrize("name", METHODS)
def test_a_gaussian_process_prior_serves_the_predictor_space_methods_and_no_other(
    name: str, small: tuple[Model, Data]
) -> None:
    model, data = replace(small[0], prior=GaussianProcessPrior()), small[1]
    method = shrunk(METHODS[name])
    if name in ("hmc", "mfvi", "nn-hyvi"):
        with pytest.raises(ValueError, match=r"prior on predictors.*Use method 'funn-hyvi'"):
            method.fit(jax.random.key(0), model, data)
    else:
        assert isinstance(method.fit(jax.random.key(0), model, data), Fit)


@pytest.mark.parametrize(("n_rows", "weight"), [(300, 2 + 80 * 0.25), (1500, 2 + 80 * 0.25), (15_000, 2 + 8 * 0.25)])
def test_the_prior_has_less_to_say_the_more_rows_there_are(n_rows: int, weight: float) -> None:
    """Of the mean theta, 2 + 80 noise^2 times up to 1,500 rows; a batch has its share."""
    method = METHODS["funn-hyvi"]
    assert isinstance(method, Variational)
    model, data = conjugate(correlation=0.0)[:2]
    batch = Batch(X=data.X, y=data.y, weight=jnp.ones(len(data.y)))
    q = method.family.initial(jax.random.key(1), model.network)
    key = jax.random.key(2)
    choices = (method, replace(method, **NO_WEIGHT))
    values = [choice.elbo(key, q, model, batch, jnp.float32(n_rows)) for choice in choices]
    thetas = q.sample(jax.random.split(key)[0], method.n_likelihood_draws)
    log_density = float(model.parameter_prior.log_density(jnp.mean(thetas, axis=0)))
    expected = len(batch.y) / n_rows * weight * log_density
    np.testing.assert_allclose(values[0] - values[1], expected, rtol=1e-3)


@pytest.mark.parametrize(("noise_std", "times"), [(0.09, 3), (0.11, 1)])
@pytest.mark.parametrize("schedule", [Constant(epochs=4), Cosine(steps=8), Plateau(max_epochs=4)])
def test_members_train_for_longer_where_there_is_little_noise(
    schedule: Any, noise_std: float, times: int, small: tuple[Model, Data]
) -> None:
    """Two batches an epoch. Noise takes no part in the loss, so the length of the training is all that it changes."""
    training = Training(learning_rate=0.01, batch_size=20, schedule=schedule)
    model, key = replace(small[0], noise_std=jnp.float32(noise_std)), jax.random.key(3)
    found = Ensemble(training=training, longer_if_nearly_exact=3).fit(key, model, small[1])
    plain = Ensemble(training=training.longer(times)).fit(key, model, small[1])
    assert len(found.trace["loss"]) == 4 * times
    assert jnp.array_equal(draws_of(found.posterior, key), draws_of(plain.posterior, key))
