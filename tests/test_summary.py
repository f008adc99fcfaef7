"""A table in few rows: what it keeps exactly, and what guides by it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offmap.arrays import Data
from offmap.inference.summary import summarised
from offmap.inference.trajectories import Course, follow, follow_guided, log_likelihoods
from offmap.inputs import UniformBox
from offmap.model import Model
from offmap.network import Network
from offmap.prior import GaussianPrior


def table(n: int, n_columns: int = 3) -> Data:
    random = np.random.default_rng(0)
    X = random.normal(size=(n, n_columns)).astype(np.float32)
    return Data(X=jnp.asarray(X), y=jnp.asarray(np.sin(X[:, 0]) + 0.1 * random.normal(size=n), jnp.float32))


def model_of(data: Data) -> Model:
    return Model(
        network=Network(n_inputs=data.X.shape[1], hidden=(8,)),
        prior=GaussianPrior(0.7),
        noise_std=jnp.float32(0.3),
        inputs=UniformBox.around(data.X),
    )


def test_groups_keep_the_number_of_rows_and_the_means() -> None:
    data = table(500)
    few = summarised(data, 40)
    assert len(few.y) == 40
    assert float(few.weight.sum()) == 500
    np.testing.assert_allclose(few.weight @ few.X / 500, data.X.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(few.weight @ few.y / 500, data.y.mean(), atol=1e-6)


def test_rows_that_are_copies_are_summarised_without_loss() -> None:
    distinct = table(6)
    copies = np.repeat(np.arange(6), [10, 50, 20, 90, 300, 30])
    data = Data(X=distinct.X[copies], y=distinct.y[copies])
    model = model_of(data)
    thetas = model.parameter_prior.sample(jax.random.key(0), 20, model.network)
    few = summarised(data, 6)
    np.testing.assert_array_equal(np.sort(few.weight), [10, 20, 30, 50, 90, 300])
    np.testing.assert_allclose(log_likelihoods(model, few, thetas), log_likelihoods(model, data, thetas), rtol=1e-4)


def test_as_many_groups_as_rows_are_the_rows() -> None:
    data = table(20)
    few = summarised(data, 20)
    np.testing.assert_array_equal(few.X, data.X)
    np.testing.assert_array_equal(few.weight, np.ones(20))


def test_columns_that_never_vary_or_repeat_another_are_no_obstacle() -> None:
    data = table(200)
    wider = data._replace(X=jnp.column_stack([data.X, data.X[:, 0], jnp.zeros(200)]))
    few = summarised(wider, 30)
    assert bool(jnp.all(jnp.isfinite(few.X)))
    np.testing.assert_allclose(few.X[:, 3], few.X[:, 0], atol=1e-6)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_what_all_rows_agree_to_is_what_they_make_likelier_than_their_summary(share: float) -> None:
    data = table(300)
    model, few = model_of(data), summarised(data, 10)
    thetas = 0.5 * model.parameter_prior.sample(jax.random.key(1), 64, model.network)
    course = Course(
        share=jnp.float32(share),
        step_size=jnp.float32(0.01),
        n_steps=jnp.int32(20),
        variance=jnp.full(model.network.n_parameters, 0.49, jnp.float32),
    )
    keys = jax.random.split(jax.random.key(2), 64)
    along = follow(course, model, few, jax.vmap(jax.random.split)(keys)[:, 0], thetas)
    end = follow_guided(course, model, data, few, keys, thetas)
    after, before = (log_likelihoods(model, data, of) - log_likelihoods(model, few, of) for of in (along.theta, thetas))
    expected = np.exp(np.minimum(0.0, share * np.asarray(after - before, np.float64)))
    np.testing.assert_allclose(end.agreement_rate, expected, atol=2e-3)
    agreed = np.asarray(jnp.all(end.theta == along.theta, axis=1))
    stayed = np.asarray(jnp.all(end.theta == thetas, axis=1))
    assert np.all(agreed | stayed)
    moved = ~np.asarray(jnp.all(along.theta == thetas, axis=1))
    rates = np.asarray(end.agreement_rate)[moved]
    assert 0.1 < rates.mean() < 0.95  # else nothing is asked of the second acceptance
    assert abs(np.sum(agreed[moved]) - np.sum(rates)) / np.sqrt(np.sum(rates * (1 - rates))) < 4
    np.testing.assert_allclose(end.log_likelihood, log_likelihoods(model, data, end.theta), rtol=1e-5)
