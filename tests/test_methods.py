"""Every method in METHODS, through one table: what each recovers, and what it promises alike."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offmap.arrays import Array, Batch, Data, Key
from offmap.divergences import entropy_knn
from offmap.families import MeanField, Posterior
from offmap.inference import METHODS, PAPER_METHODS, PAPER_METHODS_LARGE, BatchedHMC, Fit, Method, TemperedHMC
from offmap.inference.annealed_hmc import AnnealedHMC, _Sampler
from offmap.inference.ensemble import Ensemble
from offmap.inference.hmc import HMC
from offmap.inference.mixing import has_mixed
from offmap.inference.variational import Variational
from offmap.inputs import UniformBox
from offmap.model import Model
from offmap.network import Network
from offmap.objectives import Comparison
from offmap.optimize import Training
from offmap.prior import GaussianPrior, GaussianProcessPrior
from offmap.schedules import Constant, Cosine, Plateau

NOISE_STD, PRIOR_STD = 0.5, 0.7


class Conjugate(NamedTuple):
    """A linear predictor, whose posterior is known exactly."""

    model: Model
    data: Data
    mean: np.ndarray
    covariance: np.ndarray


def conjugate(correlation: float) -> Conjugate:
    random = np.random.default_rng(3)
    # Whitened exactly, so that without correlation the posterior is a product of independent Gaussians.
    raw = np.linalg.qr(np.column_stack([np.ones(48), random.normal(size=(48, 2))]))[0][:, 1:] * np.sqrt(48)
    X = raw @ np.linalg.cholesky([[1.0, correlation], [correlation, 1.0]]).T
    y = X @ [0.8, -0.4] + 0.3 + NOISE_STD * random.normal(size=48)
    design = np.column_stack([X, np.ones(48)])
    covariance = np.linalg.inv(design.T @ design / NOISE_STD**2 + np.eye(3) / PRIOR_STD**2)
    return Conjugate(
        model=Model(
            network=Network(n_inputs=2, hidden=()),
            prior=GaussianPrior(PRIOR_STD),
            noise_std=jnp.float32(NOISE_STD),
            inputs=UniformBox.around(jnp.asarray(X, jnp.float32)),
        ),
        data=Data(X=jnp.asarray(X, jnp.float32), y=jnp.asarray(y, jnp.float32)),
        mean=covariance @ design.T @ y / NOISE_STD**2,
        covariance=covariance,
    )


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


@pytest.mark.parametrize(
    "method",
    [
        HMC(warmup=400, draws=1000),
        HMC(warmup=400, draws=1000, first_doublings=2, most_doublings=2),
        AnnealedHMC(draws=1000),
        AnnealedHMC(draws=1000, keep=0.3, effort=1, length=0.5, settling=1),  # poor moves, so that weights must do it
        BatchedHMC(leapfrog_steps=16, warmup=200),
        BatchedHMC(chains=4, leapfrog_steps=2, warmup=200, thinning=8, target_acceptance=0.9),
        BatchedHMC(leapfrog_steps=16, warmup=200, guides=8),  # as a rule all rows disagree with so few
        TemperedHMC(levels=4, first_share=0.05, warmup=160, draws=1000),
        TemperedHMC(levels=4, first_share=0.05, warmup=160, draws=4000, length=0.1),  # so that exchanges must do it
    ],
    ids=[
        "chains",
        "chains of short trajectories",
        "populations",
        "populations that hardly move",
        "batched chains",
        "batched chains that hardly move",
        "batched chains that follow a summary",
        "ladders",
        "ladders whose networks hardly move",
    ],
)
def test_samplers_recover_the_exact_posterior_within_monte_carlo_error(method: Method) -> None:
    problem = conjugate(correlation=0.6)
    fit = method.fit(jax.random.key(0), problem.model, problem.data)
    if isinstance(method, HMC):
        assert np.max(fit.trace["leapfrog_steps"]) < 2**method.first_doublings
    thetas, ess = (
        np.asarray(fit.posterior.sample(jax.random.key(0), 4000), np.float64),
        np.asarray(fit.trace["ess_theta"]),
    )
    exact_std = np.sqrt(np.diag(problem.covariance))
    z_mean = (thetas.mean(axis=0) - problem.mean) / (exact_std / np.sqrt(ess))
    z_std = (thetas.std(axis=0) / exact_std - 1) * np.sqrt(2 * ess / 2)  # the ESS of squares is about half
    assert np.max(np.abs(z_mean)) < 4
    assert np.max(np.abs(z_std)) < 4
    correlation = np.corrcoef(thetas[:, 0], thetas[:, 1])[0, 1]
    exact_correlation = problem.covariance[0, 1] / (exact_std[0] * exact_std[1])
    assert abs(np.arctanh(correlation) - np.arctanh(exact_correlation)) * np.sqrt(ess.min() / 2) < 4
    assert float(fit.trace["rhat_predictions"].max()) < 1.01


@pytest.mark.filterwarnings("ignore:The populations have not mixed")  # 1,000 draws are few for R-hat
def test_populations_know_modes_that_no_trajectory_connects() -> None:
    """One unit, v tanh(w x): (w, v) and (-w, -v) are the same predictor, so each side has half of the posterior."""
    X = jnp.linspace(-2.0, 2.0, 30)[:, None]
    model = Model(
        network=Network(n_inputs=1, hidden=(1,), activation="tanh"),
        prior=GaussianPrior(1.0),
        noise_std=jnp.float32(0.05),
        inputs=UniformBox.around(X),
    )
    data = Data(X=X, y=jnp.tanh(1.5 * X[:, 0]))
    fit = AnnealedHMC(draws=250).fit(jax.random.key(0), model, data)
    w = np.asarray(fit.posterior.sample(jax.random.key(0), 1000)[:, 0])
    assert np.min(np.abs(w)) > 0.5  # between the modes there is nobody
    z = (np.mean(w > 0) - 0.5) / (0.5 / np.sqrt(float(fit.trace["ess_theta"][0])))
    assert abs(z) < 4
    assert float(fit.trace["rhat_theta"].max()) < 1.05


@pytest.mark.filterwarnings("ignore:The populations have not mixed")
def test_populations_are_independent_draws_of_theta() -> None:
    """Where rows say nothing the posterior is the prior, and the entropy of its draws that of the prior's own draws."""
    X = jax.random.normal(jax.random.key(1), (20, 2))
    model = Model(
        network=Network(n_inputs=2, hidden=(10,)),
        prior=GaussianPrior(),
        noise_std=jnp.float32(300.0),
        inputs=UniformBox.around(X),
    )
    fit = AnnealedHMC(draws=250).fit(jax.random.key(0), model, Data(X=X, y=X[:, 0]))
    keys = jax.random.split(jax.random.key(2), 20)
    exact = [float(entropy_knn(GaussianPrior().sample(key, 1000, model.network))) for key in keys]
    found = float(entropy_knn(fit.posterior.sample(jax.random.key(3), 1000)))
    assert abs(found - np.mean(exact)) < 4 * np.std(exact)


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


def shrunk(method: Method) -> Any:
    """The same method in a second or two."""
    if hasattr(method, "training"):
        return replace(method, training=replace(method.training, schedule=Constant(epochs=3), batch_size=16))
    if isinstance(method, AnnealedHMC):
        return replace(method, populations=2, draws=30, effort=8, settling=1, patience=1)
    if isinstance(method, BatchedHMC):
        return replace(method, chains=2, leapfrog_steps=8, warmup=30, draws=30, thinning=1, most_draws=30)
    if isinstance(method, TemperedHMC):
        return replace(method, chains=2, levels=3, most_steps=8, warmup=30, draws=30, most_draws=30)
    return replace(method, chains=2, warmup=30, draws=30, most_draws=30)


SAMPLERS = {
    "chains": METHODS["hmc"],
    "populations": PAPER_METHODS["hmc"],
    "batched chains": BatchedHMC(),
    "guided chains": BatchedHMC(guides=10),
    "ladders": TemperedHMC(),
}


@pytest.fixture(scope="module")
def small() -> tuple[Model, Data]:
    X = jax.random.normal(jax.random.key(5), (40, 3))
    model = Model(
        network=Network(n_inputs=3, hidden=(8,)),
        prior=GaussianPrior(),
        noise_std=jnp.float32(0.3),
        inputs=UniformBox.around(X),
    )
    return model, Data(X=X, y=jnp.sin(X[:, 0]) + 0.1 * jax.random.normal(jax.random.key(6), (40,)))


def draws_of(posterior: Posterior, key: Key) -> Array:
    return posterior.sample(key, 6)


@pytest.mark.filterwarnings("ignore:The (chains|populations) have not mixed")
@pytest.mark.parametrize("method", [*METHODS.values(), *SAMPLERS.values()], ids=[*METHODS, *SAMPLERS])
def test_same_key_same_numbers_other_key_others(method: Method, small: tuple[Model, Data]) -> None:
    method, key = shrunk(method), jax.random.key(1)
    first, again, other = (
        draws_of(method.fit(fit_key, *small).posterior, key) for fit_key in (key, key, jax.random.key(2))
    )
    assert first.shape == (6, small[0].network.n_parameters)
    assert jnp.array_equal(first, again)
    assert not jnp.any(jnp.all(first == other, axis=1))


@pytest.mark.filterwarnings("ignore:The (chains|populations) have not mixed")
@pytest.mark.parametrize("method", SAMPLERS.values(), ids=SAMPLERS)
def test_samplers_do_the_same_where_jax_has_64_bits(method: Method, small: tuple[Model, Data]) -> None:
    key = jax.random.key(1)
    usual = shrunk(method).fit(key, *small).posterior
    with jax.enable_x64(True):
        wide = shrunk(method).fit(key, *small).posterior
    assert wide.thetas.dtype == jnp.float32
    np.testing.assert_array_equal(usual.thetas, wide.thetas)


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


@pytest.mark.filterwarnings("ignore:The chains have not mixed")
def test_hmc_draws_until_it_has_enough_or_may_not_go_on(small: tuple[Model, Data]) -> None:
    never = HMC(chains=2, warmup=30, draws=20, enough=1e9, most_draws=70).fit(jax.random.key(0), *small)
    assert never.trace["acceptance_rate"].shape == (2, 70)  # 20, 40, and what is left
    assert never.posterior.n_members == 140


@pytest.mark.filterwarnings("ignore:The chains have not mixed")
def test_batched_chains_are_checked_whenever_they_are_a_quarter_longer(small: tuple[Model, Data]) -> None:
    method = BatchedHMC(chains=2, leapfrog_steps=4, warmup=30, draws=20, thinning=3, enough=1e9, most_draws=27)
    never = method.fit(jax.random.key(0), *small)
    assert never.posterior.n_members == 2 * 27  # 20, 25, and what is left
    assert never.trace["acceptance_rate"].shape == (30 + 3 * 27,)
    after_warmup = np.asarray(never.trace["step_size"])[30:]
    assert np.all(after_warmup == after_warmup[0])  # a chain that went on adapting would sample something else


def test_batched_chains_come_from_the_prior_to_where_rows_have_all_but_decided() -> None:
    """Under so little noise a draw of the prior is hundreds of nats a row from the posterior."""
    problem = conjugate(correlation=0.0)
    model, data = replace(problem.model, noise_std=jnp.float32(0.01)), problem.data
    design = np.column_stack([data.X, np.ones(48)])
    precision = design.T @ design / 0.01**2 + np.eye(3) / PRIOR_STD**2
    mean, std = np.linalg.solve(precision, design.T @ np.asarray(data.y) / 0.01**2), 1 / np.sqrt(np.diag(precision))
    fit = BatchedHMC(leapfrog_steps=16, warmup=400).fit(jax.random.key(0), model, data)
    thetas = np.asarray(fit.posterior.sample(jax.random.key(0), 4000), np.float64)
    z_mean = (thetas.mean(axis=0) - mean) / (std / np.sqrt(np.asarray(fit.trace["ess_theta"])))
    assert np.max(np.abs(z_mean)) < 4


@pytest.mark.parametrize(("rhat", "size", "mixed"), [(1.01, 1000.0, True), (1.02, 5000.0, False), (1.0, 999.0, False)])
def test_chains_have_mixed_when_they_agree_and_say_enough(rhat: float, size: float, mixed: bool) -> None:
    checks = {"rhat_predictions": jnp.array([1.0, rhat]), "ess_predictions": jnp.array([9999.0, size])}
    assert has_mixed(checks, enough=1000.0) is mixed


@pytest.mark.parametrize("method", SAMPLERS.values(), ids=SAMPLERS)
def test_samplers_name_the_prediction_that_mixed_worst(method: Method, small: tuple[Model, Data]) -> None:
    with pytest.warns(
        UserWarning, match=r"have not mixed: of 140 checked predictions the worst, at (checked|OOD).*R-hat"
    ):
        shrunk(method).fit(jax.random.key(0), *small)


def test_populations_move_at_the_posterior_until_there_is_enough_or_no_patience() -> None:
    problem = conjugate(correlation=0.0)
    content = AnnealedHMC(populations=2, draws=1000, settling=3, patience=9)
    fits = [content.fit(jax.random.key(0), problem.model, problem.data)]
    with pytest.warns(UserWarning, match="The populations have not mixed"):
        fits.append(replace(content, enough=1e9).fit(jax.random.key(0), problem.model, problem.data))
    shares = [np.asarray(fit.trace["share"]) for fit in fits]
    steps = [int(np.sum(np.asarray(fit.trace["leapfrog_steps"])[fit.trace["share"] == 1.0])) for fit in fits]
    assert 3 + 1 <= steps[0] / 64 < 3 + 2  # one round belongs to the last level
    assert 9 + 1 <= steps[1] / 64 < 9 + 2
    assert all(np.all(np.diff(rising) >= 0) and 0 < rising[0] < 1 for rising in shares)
    assert all(fit.posterior.n_members == 2000 for fit in fits)


def test_a_move_is_the_same_however_many_networks_are_dealt_with_at_once(small: tuple[Model, Data]) -> None:
    """33 at once leave a last piece of 28 of 160, which is filled up. Sums are rounded differently, and no more."""
    samplers = [_Sampler(AnnealedHMC(populations=2, draws=80, effort=1), *small) for _ in range(2)]
    samplers[1].at_once = 33
    starts = [sampler.start(jax.random.key(0)) for sampler in samplers]
    np.testing.assert_allclose(starts[0].log_likelihoods, starts[1].log_likelihoods, rtol=1e-5)
    ends = [sampler.moved(jax.random.key(1), start) for sampler, start in zip(samplers, starts, strict=True)]
    np.testing.assert_allclose(ends[0].thetas, ends[1].thetas, atol=1e-4)
    np.testing.assert_allclose(ends[0].log_likelihoods, ends[1].log_likelihoods, rtol=1e-4)


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
