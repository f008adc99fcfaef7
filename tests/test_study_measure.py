"""What the study measures, against slower twins, closed forms and symmetries."""

import math
import warnings
from collections.abc import Callable
from typing import ClassVar

import jax
import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import digamma, gammaln
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning

from offmap.datasets import load_dataset
from offmap.inference import METHODS, PAPER_METHODS, PAPER_METHODS_LARGE
from offmap.inference.ensemble import Ensemble
from offmap.metrics import auc, rmse
from offmap.optimize import Training
from offmap.regressor import DEFAULT_PRIOR, DiverseRegressor
from offmap.schedules import Constant
from offmap.study import measure
from offmap.study.baselines import BASELINES
from offmap.study.measure import Split, accuracy, bands, entropies, fitted, quantiles, separation, shift
from offmap.study.protocol import PROTOCOLS, Setup
from offmap.study.record import FALSE_POSITIVE_RATES, QUANTILE_LEVELS
from offmap.study.shifts import SHIFTS, middle_half, outer_half
from tests.conftest import Split as Table

QUICK = Training(learning_rate=0.01, batch_size=50, schedule=Constant(epochs=20), optimizer="momentum")
SETUP = Setup({"ensemble": Ensemble(training=QUICK, members=6)}, noise=0.3)


def split(factor: float = 1.0) -> Split:
    """Diabetes; the target in other units by a power of two, so that nothing is rounded differently."""
    table = load_diabetes(scaled=False)
    return Split.of(table.data, factor * table.target)


def ensemble(rows: Split) -> DiverseRegressor:
    return SETUP.regressor("ensemble", rows.y_train, seed=0).fit(rows.X_train, rows.y_train)


@pytest.fixture(scope="module")
def model() -> DiverseRegressor:
    return ensemble(split())


def entropy_by_hand(draws: np.ndarray, floor: float) -> float:
    """Eq. 4, nearest neighbour, in float64."""
    n, d = draws.shape
    distances = cdist(draws, draws) + np.diag(np.full(n, np.inf))
    nearest = np.maximum(distances.min(axis=1), floor)
    log_ball = d / 2 * math.log(math.pi) - gammaln(d / 2 + 1)
    return float(math.log(n) - digamma(1) + log_ball + d * np.mean(np.log(nearest)))


def test_the_split_is_the_papers() -> None:
    rows = split()
    assert (len(rows.y_train), len(rows.y_test)) == (397, 45)
    # The first test rows under random_state=42, whatever the share.
    assert rows.y_test[:3].tolist() == [219.0, 70.0, 202.0]


def test_entropies_are_those_by_hand(model: DiverseRegressor) -> None:
    found = entropies(model, n_inputs=12, seed=3)
    draw_key, input_key = jax.random.split(jax.random.key(3))
    thetas = model.posterior_.sample(draw_key, 6)
    floor = 1.1920929e-07
    by_hand_of_theta = entropy_by_hand(np.asarray(thetas, np.float64), floor)
    assert found["entropy_parameter"] == pytest.approx(by_hand_of_theta, rel=1e-4)
    by_hand = []
    for key in jax.random.split(input_key, 100):
        X = model.inputs_.sample(key, 12)
        values = np.asarray(model.network_.plain_draws(thetas, X), np.float64)
        by_hand.append(entropy_by_hand(values / math.sqrt(12), floor))
    assert found["entropy_predictor"] == pytest.approx(np.mean(by_hand), abs=0.01)


def test_the_unit_of_the_target_moves_what_it_should_and_nothing_else(model: DiverseRegressor) -> None:
    rows, larger = split(), split(1024.0)
    other = ensemble(larger)
    nu = SETUP.nu(rows.X_train)
    assert entropies(model, 10, 0) == entropies(other, 10, 0)
    ours, theirs = separation(model, rows, nu, 0), separation(other, larger, nu, 0)
    assert [ours[key] for key in ("auc", "auc_test", "auc_permuted", "roc")] == [
        theirs[key] for key in ("auc", "auc_test", "auc_permuted", "roc")
    ]
    np.testing.assert_allclose(np.subtract(theirs["u_ood"], ours["u_ood"]), math.log(1024), atol=1e-4)
    here, there = accuracy(model, rows), accuracy(other, larger)
    assert there["rmse"] == pytest.approx(1024 * here["rmse"], rel=1e-9)
    for key in ("lpp", "lpp_variance_only"):
        assert there[key] == pytest.approx(here[key] - math.log(1024), abs=1e-5)


def test_accuracy_is_that_of_the_draws(model: DiverseRegressor) -> None:
    rows = split()
    draws, y = model.predict_draws(rows.X_test), rows.y_test
    mean, variance, noise = draws.mean(axis=0), draws.var(axis=0, ddof=1), 0.3 * rows.y_train.std()
    found = accuracy(model, rows)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)), rel=1e-5)
    assert found["lpp"] == pytest.approx(norm.logpdf(y, mean, np.sqrt(variance + noise**2)).mean(), abs=1e-4)
    assert found["lpp_variance_only"] == pytest.approx(norm.logpdf(y, mean, np.sqrt(variance)).mean(), rel=1e-3)


def test_separation_of_a_score_that_is_known() -> None:
    """One column is its own score: training rows are uniform on [0, 1], test rows on [0.5, 1], nu on [0.5, 1.5]."""

    class Itself:
        def uncertainty(self, X: np.ndarray) -> np.ndarray:
            return np.asarray(X[:, 0])

    x, upper = np.linspace(0, 1, 2000), np.linspace(0.5, 1, 1000)
    rows = Split(x[:, None], upper[:, None], x, upper)
    found = separation(Itself(), rows, Setup({}, box=(0.5, 1.5)).nu(rows.X_train), seed=0)
    # A row of nu lies above a training row with probability 7/8 and above a test row with 3/4; a permuted row lies
    # above a test row with 1/4. Within four standard errors of 10,000 draws, each with a std of at most 0.3.
    within = 4 * 0.3 / 100
    assert found["auc"] == pytest.approx((2 * 7 / 8 + 3 / 4) / 3, abs=within)
    assert found["auc_test"] == pytest.approx(3 / 4, abs=within)
    assert found["auc_permuted"] == pytest.approx(1 / 4, abs=within)
    expected = np.minimum(0.5 + 0.75 * np.array(FALSE_POSITIVE_RATES), 1)
    np.testing.assert_allclose(found["roc"], expected, atol=4 * 0.5 / 100)
    levels = np.array(QUANTILE_LEVELS)
    np.testing.assert_allclose(found["u_train"], levels, atol=1e-3)
    np.testing.assert_allclose(found["u_test"], 0.5 + levels / 2, atol=1e-3)
    np.testing.assert_allclose(found["u_ood"], 0.5 + levels, atol=0.02)


def test_rows_off_the_map_are_the_same_for_all_methods_and_change_with_the_seed() -> None:
    rows, seen = split(), []

    class Recorder:
        def uncertainty(self, X: np.ndarray) -> np.ndarray:
            seen.append(X)
            return np.zeros(len(X))

    for seed in (0, 0, 1):
        separation(Recorder(), rows, SETUP.nu(rows.X_train), seed)
    first, again, other = seen[2], seen[6], seen[10]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    low, high = rows.X_train.min(axis=0), rows.X_train.max(axis=0)
    assert first.shape == (10_000, 10)
    slack = 1e-5 * (high - low)
    assert ((first >= low - slack) & (first <= high + slack)).all()
    # Uniform: the mean is the centre of the box, whatever the rows are.
    z = (first.mean(axis=0) - (low + high) / 2) / ((high - low) / math.sqrt(12 * 10_000))
    assert np.abs(z).max() < 4
    permuted = seen[3]
    nearest = [np.abs(permuted[:, [c]] - np.unique(rows.X_train[:, c])[None, :]).min(axis=1).max() for c in range(10)]
    assert (np.array(nearest) <= slack).all()


def test_quantiles_are_values_and_may_be_minus_infinity() -> None:
    values = np.random.default_rng(0).permutation(0.5 * np.arange(101))
    assert quantiles(values) == np.arange(51.0).tolist()
    assert quantiles(np.array([-np.inf, 1.23456789])) == [-math.inf] * 26 + [1.23457] * 25


def test_a_fit_is_told_with_its_complaints() -> None:
    class Sampled:
        trace_: ClassVar = {"rhat_predictions": np.array([1.0, 1.2]), "ess_predictions": np.array([50.0, 900.0])}
        noise_std_ = 2.0

        def uncertainty(self, X: np.ndarray) -> np.ndarray:
            return np.zeros(len(X))

    def fit(X: np.ndarray, y: np.ndarray) -> Sampled:
        warnings.warn("The chains have not mixed.", ConvergenceWarning, stacklevel=1)
        warnings.warn("The chains have not mixed.", ConvergenceWarning, stacklevel=1)
        return Sampled()

    _, found = fitted(fit, split())
    assert {key: found[key] for key in ("rhat", "ess", "noise_std")} == {"rhat": 1.2, "ess": 50.0, "noise_std": 2.0}
    assert found["warnings"] == 2 * ["The chains have not mixed."]


def test_bands_are_mean_and_spread_along_the_grid() -> None:
    x = np.linspace(-1, 1, 40)[:, None]
    model = SETUP.regressor("ensemble", x[:, 0], 0).fit(x, x[:, 0])
    found = bands(model, (-4.0, 2.0))
    grid = np.linspace(-4, 2, 200)
    draws = model.predict_draws(grid[:, None])
    np.testing.assert_allclose(found["x"], grid, atol=1e-5)
    np.testing.assert_allclose(found["mean"], draws.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(found["std"], draws.std(axis=0, ddof=1), rtol=1e-3, atol=1e-5)


def test_a_shift_of_a_known_predictor() -> None:
    """The prediction is 0, so errors are y; the score is the column: y = x ranks perfectly, and all is by hand."""

    class Zero:
        def uncertainty(self, X: np.ndarray) -> np.ndarray:
            return np.asarray(X[:, 0])

        def predict(self, X: np.ndarray) -> np.ndarray:
            return np.zeros(len(X))

    inside, outside = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    rows = Split(inside[:, None], inside[:, None], inside, inside)
    found = shift(Zero(), rows, outside[:, None], outside)
    risks = [1, (1 + 4) / 2, (1 + 4 + 9) / 3, (1 + 4 + 9 + 16) / 4]
    assert found == {
        "auc": 1.0,
        "n_out": 2,
        "rmse_in": pytest.approx(math.sqrt(2.5)),
        "rmse_out": pytest.approx(math.sqrt(12.5)),
        "error_ratio": pytest.approx(math.sqrt(5)),
        "spearman": pytest.approx(1.0),
        "aurc": pytest.approx(np.mean(risks)),
        "aurc_random": pytest.approx(7.5),
        "aurc_oracle": pytest.approx(np.mean(risks)),
    }
    blind = shift(BASELINES["mahalanobis"].fit(inside[:, None], inside, 0), rows, outside[:, None], outside)
    assert blind.keys() == found.keys()
    assert blind["rmse_out"] is None


def test_the_papers_protocol_is_the_papers() -> None:
    setups = PROTOCOLS["paper"].setups
    y = np.array([0.0, 10.0])  # std 5
    for name, noise in {"boston": 2.5, "concrete": 4.5, "powerplant": 3.1, "protein": 4.4, "navalC": 0.2}.items():
        assert setups[name].regressor("hmc", y, 0).noise_std == pytest.approx(5 * noise)
    assert setups["navalC"].regressor("ensemble", y, 0).noise_std == pytest.approx(5 * 0.02)
    assert [setups[name].hidden for name in ("yacht", "navalC")] == [(50,), (100,)]
    assert setups["yacht"].methods is PAPER_METHODS
    assert setups["powerplant"].methods is PAPER_METHODS_LARGE
    stds = {method: setups["yacht"].regressor(method, y, 0).prior.std for method in METHODS}  # type: ignore[union-attr]
    assert stds["hmc"] == math.sqrt(0.5)
    assert {stds[method] for method in ("mfvi", "funn-mfvi", "nn-hyvi", "funn-hyvi")} == {0.5}
    wave = setups["wave"].regressor("funn-hyvi", y, 0)
    assert (wave.noise_std, wave.activation, wave.method.comparison.n_inputs) == (0.1, "tanh", 50)  # type: ignore[union-attr]
    nu = setups["wave"].nu(np.array([[-1.0], [1.0]]))
    np.testing.assert_allclose([nu.low[0], nu.high[0]], [-4, 2], atol=1e-6)


def test_the_default_protocol_is_the_same_for_all_tables_and_what_a_user_gets() -> None:
    setups = PROTOCOLS["default"].setups
    plain = DiverseRegressor(method=METHODS["funn-hyvi"], random_state=0).get_params()
    for name, setup in setups.items():
        ours = setup.regressor("funn-hyvi", np.array([0.0, 1.0]), 0).get_params()
        assert ours["prior"] == DEFAULT_PRIOR
        differing = {key for key in plain if key != "prior" and str(ours[key]) != str(plain[key])}
        assert differing == ({"ood_inputs"} if name == "wave" else set())
        assert setup.methods is METHODS


@pytest.mark.parametrize(
    ("name", "knn", "gaussian_process"), [("yacht", 0.9866, (0.9998, 0.411)), ("boston", 0.9985, None)]
)
def test_baselines_reach_what_was_measured_elsewhere(
    name: str, knn: float, gaussian_process: tuple[float, float] | None, uci: Callable[[str], Table]
) -> None:
    table = uci(name)
    nu = np.random.default_rng(0).uniform(
        table.X_train.min(axis=0), table.X_train.max(axis=0), (10_000, table.X.shape[1])
    )
    scorer = BASELINES["knn-distance"].fit(table.X_train, table.y_train, 0)
    assert auc(scorer.uncertainty(table.X), scorer.uncertainty(nu)) == pytest.approx(knn, abs=5e-4)
    if gaussian_process:
        process = BASELINES["gaussian-process"].fit(table.X_train, table.y_train, 0)
        found = auc(process.uncertainty(table.X), process.uncertainty(nu))
        error = rmse(table.y_test, process.predict(table.X_test))  # type: ignore[attr-defined]
        assert found == pytest.approx(gaussian_process[0], abs=5e-4)
        assert error == pytest.approx(gaussian_process[1], abs=5e-3)


def test_baselines_against_their_definitions() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)) @ np.diag([1.0, 10.0, 0.1]) + 5, rng.normal(size=60)
    new = rng.normal(size=(7, 3)) * 3
    standard = (new - X.mean(axis=0)) / X.std(axis=0), (X - X.mean(axis=0)) / X.std(axis=0)
    fifth = np.sort(cdist(*standard), axis=1)[:, 4]
    np.testing.assert_allclose(BASELINES["knn-distance"].fit(X, y, 0).uncertainty(new), fifth, rtol=1e-4)
    away = new - X.mean(axis=0)
    squared = np.sum(away @ np.linalg.inv(np.cov(X.T, ddof=0)) * away, axis=1)
    np.testing.assert_allclose(BASELINES["mahalanobis"].fit(X, y, 0).uncertainty(new), squared, rtol=1e-3)
    forest = BASELINES["isolation-forest"].fit(X, y, 0)
    assert forest.uncertainty(X.max(axis=0)[None] * 3)[0] > np.median(forest.uncertainty(X))


def test_a_gaussian_process_in_chunks_answers_as_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 2))
    y = 100 * np.sin(X[:, 0]) + 5 * rng.normal(size=80)
    process = BASELINES["gaussian-process"].fit(X, y, 0)
    whole = process.uncertainty(X)
    monkeypatch.setattr("offmap.study.baselines.ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(process.uncertainty(X), whole, atol=1e-6)
    assert process.noise_std_ == pytest.approx(5, rel=0.3)  # type: ignore[attr-defined]
    mean, std = process._moments(X)  # type: ignore[attr-defined]
    density = process.log_predictive_density(X, y)  # type: ignore[attr-defined]
    np.testing.assert_allclose(density, norm.logpdf(y, mean, std), atol=1e-9)
    np.testing.assert_allclose(whole, norm.entropy(scale=std), atol=1e-6)


def test_halves_of_the_first_component_do_not_depend_on_units_or_signs() -> None:
    rng = np.random.default_rng(3)
    along = rng.normal(size=200)
    X = np.stack([along, along + 0.1 * rng.normal(size=200), np.full(200, 7.0)], axis=1)
    outer = outer_half(X, "abc")
    np.testing.assert_array_equal(outer, outer_half(X * [-3.0, 100.0, 1.0] + 8, "abc"))
    np.testing.assert_array_equal(middle_half(X, "abc"), ~outer)
    mean = X[:, :2].mean(axis=1)
    assert outer.sum() == 100
    assert np.abs(mean[outer]).min() > 0.8 * np.abs(mean[~outer]).max()


def test_rules_hold_out_what_the_tables_say(uci: Callable[[str], Table]) -> None:
    counts = {"boston": 132, "yacht": 3 * 22, "energy": 384, "concrete": 281}  # counted in the files
    for name, n_out in counts.items():
        table = load_dataset(name)
        *_, rule = SHIFTS[name].values()
        assert rule(table.X, table.feature_names).sum() == n_out


def test_every_dataset_has_rules_and_the_module_measures_with_the_papers_numbers() -> None:
    assert all(len(rules) >= 2 for rules in SHIFTS.values())
    assert (measure.N_OOD, measure.N_DRAWS, measure.N_INPUT_SETS) == (10_000, 1000, 100)
    assert Setup({}).n_inputs == 200
