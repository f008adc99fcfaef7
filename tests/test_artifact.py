"""Save and load: the same numbers come back, a failure leaves nothing half-written, and a damaged file is one error."""

import errno
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load as load_arrays
from sklearn.base import clone

from offmap import METHODS, DiverseRegressor, GaussianPrior, GaussianProcessPrior, OODDetector, __version__, load
from offmap.artifact import FORMAT, ModelFileError, _digest, refuse_to_overwrite
from offmap.inference import Method
from offmap.inference.dropout import MCDropout
from offmap.inference.ensemble import Ensemble
from offmap.inference.hmc import HMC
from offmap.inference.variational import Variational
from offmap.objectives import Comparison
from offmap.schedules import Constant, Cosine

X = np.random.default_rng(0).normal(size=(30, 2)) * [1.0, 50.0] + [0.0, 1e4]
Y = 100 + np.sin(X[:, 0])
FRAME = pd.DataFrame(X, columns=["height", "weight"])


def shrunk(method: Method) -> Method:
    """The same method with far too little work to be any good."""
    if isinstance(method, HMC):
        return replace(method, chains=2, warmup=10, draws=10)
    if isinstance(method, Variational):
        training = replace(method.training, schedule=Cosine(steps=3))
        few = Comparison(n_inputs=4, equal_inputs=method.comparison.equal_inputs)
        return replace(method, training=training, n_likelihood_draws=4, n_divergence_draws=8, comparison=few)
    assert isinstance(method, Ensemble | MCDropout)
    return replace(method, training=replace(method.training, schedule=Constant(epochs=2)))


def regressor(method: str = "ensemble", **settings: Any) -> DiverseRegressor:
    model = DiverseRegressor(shrunk(METHODS[method]), noise_std=0.1, hidden=(5,), n_draws=20, random_state=0)
    return model.set_params(**settings)


def answers(estimator: Any, rows: Any = X) -> dict[str, np.ndarray]:
    if isinstance(estimator, OODDetector):
        return {**estimator.verdicts(rows), "decision": estimator.decision_function(rows)}
    mean, std = estimator.predict(rows, return_std=True)
    density = estimator.log_predictive_density(rows, Y)
    return {"mean": mean, "std": std, "draws": estimator.predict_draws(rows), "density": density}


def assert_same_answers(first: Any, second: Any, rows: Any = X) -> None:
    expected = answers(second, rows)
    for name, values in answers(first, rows).items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


@pytest.fixture(scope="module")
def model() -> DiverseRegressor:
    return regressor().fit(FRAME, Y)


@pytest.fixture
def saved(model: DiverseRegressor, tmp_path: Path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


# --- there and back ---


@pytest.mark.filterwarnings("ignore:The chains have not mixed")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_the_same_numbers(method: str, tmp_path: Path) -> None:
    fitted = regressor(method).fit(X, Y)
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert type(loaded) is DiverseRegressor
    assert loaded.method_ == fitted.method_
    assert_same_answers(loaded, fitted)


@pytest.mark.parametrize("calibration", ["held-out", "cross-fit"])
def test_detector_gives_the_same_numbers(calibration: Any, tmp_path: Path) -> None:
    detector = OODDetector(regressor(), false_alarm_rate=0.2, calibration=calibration, random_state=0).fit(FRAME, Y)
    detector.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert type(loaded) is OODDetector
    assert loaded.calibration_ == calibration
    assert_same_answers(loaded, detector, FRAME)
    np.testing.assert_array_equal(clone(loaded).fit(FRAME, Y).p_values(FRAME), detector.p_values(FRAME))


def test_threshold_at_infinity_survives(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Nothing can be flagged"):
        detector = OODDetector(regressor(), false_alarm_rate=0.01, random_state=0).fit(X, Y)
    detector.save(tmp_path / "model")
    assert load(tmp_path / "model").offset_ == detector.offset_ == -np.inf


def test_feature_names_survive(saved: Path) -> None:
    loaded = load(saved)
    assert list(loaded.feature_names_in_) == ["height", "weight"]
    with pytest.raises(ValueError, match="same order"):
        loaded.predict(FRAME[["weight", "height"]])


@pytest.mark.parametrize(
    "settings",
    [
        {"prior": GaussianPrior(std=2.0)},
        {"method": "funn-mfvi", "prior": GaussianProcessPrior(length_scale=0.5)},
        {"ood_inputs": 2 * X},
        {"ood_inputs": X[:3].tolist()},
        {"ood_inputs": "permuted", "activation": "tanh", "hidden": (3, 4), "noise_std": np.float32(0.5)},
    ],
    ids=lambda settings: ", ".join(settings),
)
def test_settings_survive(settings: dict[str, Any], tmp_path: Path) -> None:
    fitted = regressor(**settings).fit(X, Y)
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    for name, value in fitted.get_params().items():
        np.testing.assert_array_equal(loaded.get_params()[name], value, err_msg=name)
    assert_same_answers(loaded, fitted)
    assert_same_answers(clone(loaded).fit(X, Y), fitted)


def test_directory_holds_plain_json_and_plain_arrays(saved: Path) -> None:
    assert sorted(file.name for file in saved.iterdir()) == ["arrays.safetensors", "model.json"]

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    document = json.loads((saved / "model.json").read_text(encoding="utf-8"), parse_constant=refuse)
    assert document["format"] == FORMAT
    assert document["versions"]["offmap"] == __version__
    assert {"jax", "numpy", "scikit-learn"} <= set(document["versions"])
    assert document["model"]["settings"]["noise_std"] == 0.1
    arrays = load_arrays((saved / "arrays.safetensors").read_bytes())
    assert any(array.shape == (10, 5 * 3 + 6) for array in arrays.values())  # ten members' weights


def test_what_a_directory_cannot_hold_is_said(tmp_path: Path) -> None:
    model = regressor().fit(X, Y)
    model.extra_ = object()
    with pytest.raises(TypeError, match="extra_ is a object, which a model directory cannot hold"):
        model.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_frame_among_the_settings_comes_back_as_its_numbers(tmp_path: Path) -> None:
    model = regressor(ood_inputs=FRAME).fit(X, Y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").ood_inputs, FRAME.to_numpy())


@pytest.mark.parametrize("place", ["file/model", "file/deeper/model"])
def test_where_nothing_can_be_written_it_is_said_before_the_work(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PermissionError, match="is no folder that may be changed"):
        refuse_to_overwrite(tmp_path / place, overwrite=True)
    refuse_to_overwrite(tmp_path / "new" / "model", overwrite=False)


# --- nothing is lost ---


def test_existing_model_is_replaced_only_when_asked(saved: Path, model: DiverseRegressor) -> None:
    other = regressor(random_state=1).fit(X, Y)
    with pytest.raises(FileExistsError, match=r"exists already\. Choose another path, or pass overwrite=True"):
        other.save(saved)
    assert_same_answers(load(saved), model, FRAME)
    other.save(saved, overwrite=True)
    assert_same_answers(load(saved), other)
    assert [path.name for path in saved.parent.iterdir()] == ["model"]


def test_overwriting_never_takes_anything_but_a_model(model: DiverseRegressor, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    (tmp_path / "notes.txt").write_text("more work")
    for name in ("thesis", "notes.txt"):
        with pytest.raises(FileExistsError, match=r"is not a model directory, so it is not overwritten"):
            model.save(tmp_path / name, overwrite=True)
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"
    assert (tmp_path / "notes.txt").read_text() == "more work"


@pytest.mark.parametrize("step", ["write_bytes", "write_text", "rename"])
@pytest.mark.parametrize("existing", [False, True], ids=["new", "overwrite"])
def test_failed_save_changes_nothing(
    step: str, existing: bool, model: DiverseRegressor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = regressor(random_state=1).fit(X, Y)
    if existing:
        model.save(tmp_path / "model")
    works = getattr(Path, step)

    def full_disk(self: Path, *arguments: Any, **options: Any) -> Any:
        if step != "rename" or self.name == "fresh":
            raise OSError(errno.ENOSPC, "No space left on device")
        return works(self, *arguments, **options)

    monkeypatch.setattr(Path, step, full_disk)
    with pytest.raises(OSError, match="No space left"):
        other.save(tmp_path / "model", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"] * existing
    if existing:
        assert_same_answers(load(tmp_path / "model"), model, FRAME)


# --- damage ---


def cut(name: str) -> Callable[[Path], object]:
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:-50])


def alter(name: str, position: float = 0.5) -> Callable[[Path], None]:
    """Change one byte: to one that is no UTF-8 either."""

    def change(path: Path) -> None:
        content = bytearray((path / name).read_bytes())
        content[int(position * len(content))] ^= 0x80
        (path / name).write_bytes(content)

    return change


def rewrite(change: Callable[[dict[str, Any]], object], sign: bool) -> Callable[[Path], None]:
    """Change model.json; `sign` it again, as one who means harm would."""

    def rewritten(path: Path) -> None:
        document = json.loads((path / "model.json").read_text())
        change(document)
        if sign:
            document["model_sha256"] = _digest(document["model"])
        (path / "model.json").write_text(json.dumps(document))

    return rewritten


ALTERED, NO_MODEL = "is truncated or was altered. Copy it again, or fit the model again.", "is not a model directory"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut("arrays.safetensors"), f"arrays.safetensors {ALTERED}"),
        (alter("arrays.safetensors"), f"arrays.safetensors {ALTERED}"),
        (alter("arrays.safetensors", position=0.0), f"arrays.safetensors {ALTERED}"),
        (cut("model.json"), f"model.json {ALTERED}"),
        (alter("model.json"), f"model.json {ALTERED}"),
        (lambda path: (path / "model.json").write_text("[]"), f"model.json {ALTERED}"),
        (lambda path: (path / "model.json").write_text(""), f"model.json {ALTERED}"),
        (rewrite(lambda file: file["model"]["settings"].update(noise_std=0.2), sign=False), f"model.json {ALTERED}"),
        (rewrite(lambda file: file.pop("model"), sign=False), f"model.json {ALTERED}"),
        (rewrite(lambda file: file["model"].update(estimator="Popen"), sign=True), f"model.json {ALTERED}"),
        (rewrite(lambda file: file["model"].pop("fitted"), sign=True), f"model.json {ALTERED}"),
        (rewrite(lambda file: file["model"]["settings"].update(shell="rm"), sign=True), f"model.json {ALTERED}"),
        (rewrite(lambda file: file.update(format=FORMAT + 1), sign=False), f"format {FORMAT + 1}, and this version"),
        (rewrite(lambda file: file.update(format="1"), sign=False), f"model.json {ALTERED}"),
        (rewrite(lambda file: file.update(format=0), sign=False), f"model.json {ALTERED}"),
        (lambda path: (path / "model.json").write_text("[" * 100_000), f"model.json {ALTERED}"),
        (lambda path: (path / "model.json").unlink(), NO_MODEL),
        (lambda path: (path / "arrays.safetensors").unlink(), NO_MODEL),
    ],
)
def test_damaged_directory_is_one_clear_error(saved: Path, damage: Callable[[Path], object], words: str) -> None:
    damage(saved)
    with pytest.raises(ModelFileError) as error:
        load(saved)
    message = str(error.value)
    assert words in message
    assert message.startswith(str(saved))
    assert "\n" not in message


def test_newer_format_says_to_upgrade(saved: Path) -> None:
    rewrite(lambda file: file.update(format=99), sign=False)(saved)
    with pytest.raises(ModelFileError, match=rf"reads formats up to {FORMAT}\. Upgrade offmap\."):
        load(saved)


def test_path_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    for path in (tmp_path / "nowhere", tmp_path / "table.csv", tmp_path):
        with pytest.raises(ModelFileError, match=r"is not a model directory: it must hold model\.json and arrays"):
            load(path)
