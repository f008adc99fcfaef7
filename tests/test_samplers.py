"""The samplers behind hmc, against posteriors that are known: in closed form, by symmetry, as a limit."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from offmap.arrays import Data
from offmap.divergences import entropy_knn
from offmap.families import Empirical
from offmap.inference import METHODS, PAPER_METHODS, BatchedHMC, Fit, MarginalHMC, Method
from offmap.inference.annealed_hmc import AnnealedHMC, _Sampler
from offmap.inference.hmc import HMC
from offmap.inference.mixing import ess, has_mixed
from offmap.inputs import UniformBox
from offmap.model import Model
from offmap.network import Network
from offmap.prior import GaussianPrior
from tests.toy_posteriors import PRIOR_STD, conjugate, one_hinge, shrunk, small_problem, two_modes

SAMPLERS = {
    "chains": METHODS["hmc"],
    "populations": PAPER_METHODS["hmc"],
    "batched chains": BatchedHMC(),
    "guided chains": BatchedHMC(guides=10),
    "ladders": MarginalHMC(),
}


@pytest.fixture(scope="module")
def small() -> tuple[Model, Data]:
    return small_problem()


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
        MarginalHMC(
            levels=1, tops=1, leapfrog_steps=1, warmup=20
        ),  # of a linear predictor nothing but the output layer is left
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
    fit = AnnealedHMC(draws=250).fit(jax.random.key(0), *two_modes())
    w = np.asarray(fit.posterior.sample(jax.random.key(0), 1000)[:, 0])
    assert np.min(np.abs(w)) > 0.5  # between the modes there is nobody
    z = (np.mean(w > 0) - 0.5) / (0.5 / np.sqrt(float(fit.trace["ess_theta"][0])))
    assert abs(z) < 4
    assert float(fit.trace["rhat_theta"].max()) < 1.05


def positive(fit: Fit, n_chains: int) -> np.ndarray:
    """Of every draw whether the input weight is above zero, chains first."""
    assert isinstance(fit.posterior, Empirical)
    return np.asarray(fit.posterior.thetas[:, 0] > 0, np.float32).reshape(n_chains, -1)


@pytest.mark.filterwarnings("ignore:The chains have not mixed")
def test_ladders_come_to_both_modes_where_chains_stay_in_one() -> None:
    chains = BatchedHMC(leapfrog_steps=32, warmup=300, draws=300, thinning=1, most_draws=300)
    assert set(positive(chains.fit(jax.random.key(0), *two_modes()), 8).mean(axis=1)) == {0.0, 1.0}

    ladders = MarginalHMC(levels=2, tops=1, leapfrog_steps=8, mirrors=2, warmup=60, draws=500, most_draws=500)
    signs = positive(ladders.fit(jax.random.key(0), *two_modes()), 4)
    n_effective = float(ess(jnp.stack([signs, signs], axis=2))[0])
    assert n_effective > 300
    assert abs(signs.mean() - 0.5) / (0.5 / np.sqrt(n_effective)) < 4


@pytest.mark.filterwarnings("ignore:The chains have not mixed")  # how much they say is counted below
@pytest.mark.parametrize("steps", [10, 1])  # with one, mirrors and exchanges must do it
def test_ladders_agree_with_a_grid_of_all_hinges(steps: int) -> None:
    """Hidden layers of one unit are two numbers, so their posterior can be summed; that of y given them is Gaussian."""
    model, data = one_hinge()
    method = MarginalHMC(levels=3, tops=1, leapfrog_steps=steps, mirrors=1, warmup=100, most_draws=1000)
    fit = method.fit(jax.random.key(0), model, data)
    assert isinstance(fit.posterior, Empirical)
    sampled = np.asarray(fit.posterior.thetas, np.float64).reshape(4, -1, 4)

    noise_std = float(model.noise_std)
    X, y, ends = np.asarray(data.X, np.float64), np.asarray(data.y, np.float64), np.array([[-2.5], [0.0], [2.5]])
    grid = np.linspace(-4.5, 4.5, 180)  # none of them at zero
    w, b = (axis.ravel() for axis in np.meshgrid(grid, grid))
    log_weight, means = np.empty(len(w)), np.empty((len(w), len(ends)))
    for place, (slope, bias) in enumerate(zip(w, b, strict=True)):
        H, at_ends = (np.column_stack([np.maximum(rows @ [slope] + bias, 0), np.ones(len(rows))]) for rows in (X, ends))
        precision = np.eye(2) + H.T @ H / noise_std**2
        mean = np.linalg.solve(precision, H.T @ y / noise_std**2)
        log_weight[place] = (mean @ precision @ mean - np.linalg.slogdet(precision)[1] - slope**2 - bias**2) / 2
        means[place] = at_ends @ mean
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()

    draws = [sampled[..., 0], sampled[..., 1], sampled[..., 0] > 0]
    draws += [
        sampled[..., 2] * np.maximum(sampled[..., 0] * x + sampled[..., 1], 0) + sampled[..., 3] for x in ends[:, 0]
    ]
    expected = [weight @ w, weight @ b, weight @ (w > 0), *(weight @ means)]
    for values, exact in zip(draws, expected, strict=True):
        n_effective = float(ess(jnp.asarray(np.stack([values, values], axis=2), jnp.float32))[0])
        assert n_effective > 50
        assert abs(values.mean() - exact) / (values.std() / np.sqrt(n_effective)) < 4
    assert weight @ (w > 0) == pytest.approx(0.5)


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


@pytest.mark.filterwarnings("ignore:The (chains|populations) have not mixed")
@pytest.mark.parametrize("method", SAMPLERS.values(), ids=SAMPLERS)
def test_samplers_do_the_same_where_jax_has_64_bits(method: Method, small: tuple[Model, Data]) -> None:
    key = jax.random.key(1)
    usual = shrunk(method).fit(key, *small).posterior
    with jax.enable_x64(True):
        wide = shrunk(method).fit(key, *small).posterior
    assert wide.thetas.dtype == jnp.float32
    np.testing.assert_array_equal(usual.thetas, wide.thetas)


@pytest.mark.filterwarnings("ignore:The (chains|populations) have not mixed")
@pytest.mark.parametrize("method", SAMPLERS.values(), ids=SAMPLERS)
def test_same_key_same_draws_other_key_others(method: Method, small: tuple[Model, Data]) -> None:
    first, again, other = (shrunk(method).fit(key, *small).posterior.thetas for key in map(jax.random.key, (1, 1, 2)))
    assert first.shape[1] == small[0].network.n_parameters
    assert jnp.array_equal(first, again)
    assert not jnp.any(jnp.all(first == other, axis=1))


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


@pytest.mark.filterwarnings("ignore:The chains have not mixed")
def test_levels_and_step_sizes_of_ladders_stay_when_draws_begin() -> None:
    """Else the draws would be of something else than the posterior."""
    method = MarginalHMC(chains=2, levels=3, tops=2, warmup=32, draws=5, most_draws=5)
    few, more = (replace(method, draws=n, most_draws=n).fit(jax.random.key(0), *one_hinge()).trace for n in (5, 40))
    for name in ("slope_std", "step_size"):
        np.testing.assert_array_equal(few[name], more[name])
    assert few["slope_std"][0] == pytest.approx(method.first_slope_std)
    assert np.all(few["slope_std"][-2:] == 0)
    assert np.all(np.diff(few["slope_std"][:-1]) < 0)


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
