"""offmap demo: the paper's wave with all seven methods, and a real table from rows to verdicts."""

import csv
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from offmap.datasets import wave
from offmap.detector import OODDetector
from offmap.figures import draw_bands, draw_uncertainty
from offmap.files import complete_file
from offmap.inference import METHODS
from offmap.metrics import auc, rmse
from offmap.prior import GaussianPrior
from offmap.regressor import DiverseRegressor

Say = Callable[[str], None]


def run_demo(out: Path, say: Say = print) -> None:
    """Write wave.png, diabetes.csv, diabetes.png, report.md and two tables to try the commands on into `out`."""
    sections = [_wave(out, say), _diabetes(out, say)]
    with complete_file(out / "report.md") as file:
        file.write_text("# What offmap found\n\n" + "\n\n".join(sections) + "\n", encoding="utf-8")
    say(f"\nPictures, verdicts and a report are in {out}/: wave.png, diabetes.png, diabetes.csv, report.md")
    say(
        f"Two tables to try the commands on, too:\n"
        f"  offmap fit {out}/patients.csv --target progression --out {out}/model\n"
        f"  offmap score {out}/model {out}/new-patients.csv --out {out}/scored.csv"
    )


def _wave(out: Path, say: Say) -> str:
    """Figure 1 of the paper, and the disagreement in its regions as a table."""
    say("The paper's wave: 120 rows in two patches, all seven methods.")
    X, y = wave()
    x = np.linspace(-4, 2, 601)
    regions = {
        "on the patches": (np.abs(x) >= 0.5) & (np.abs(x) <= 1),
        "between": np.abs(x) < 0.5,
        "x < -1.5": x < -1.5,
    }
    table = ["| method | seconds | " + " | ".join(regions) + " |", "|---" * (2 + len(regions)) + "|"]
    panels = {}
    for name in METHODS:
        started = time.perf_counter()
        model = DiverseRegressor(
            name,
            noise_std=0.1,
            activation="tanh",
            prior=GaussianPrior(),  # the paper's
            ood_inputs=x[:, None],
            random_state=0,
            verbose=True,
        )
        with warnings.catch_warnings(record=True) as complaints:
            warnings.simplefilter("always", ConvergenceWarning)
            model.fit(X, y)
        seconds = time.perf_counter() - started
        mean, std = model.predict(x[:, None]), model.epistemic_std(x[:, None])
        panels[name] = (mean, std)
        spread = [f"{std[region].mean():.3f}" for region in regions.values()]
        table.append(f"| {name} | {seconds:.1f} | " + " | ".join(spread) + " |")
        say(
            f"  {name:<11}{seconds:5.1f} s   epistemic std "
            + ", ".join(map(" ".join, zip(regions, spread, strict=True)))
        )
        for complaint in complaints:
            say(f"  note: {complaint.message}")
    draw_bands(out / "wave.png", x, panels, (X[:, 0], y))
    return (
        "## The wave\n\nNothing is known between the patches and beyond them, and a method that knows what it does not "
        "know disagrees there.\nMean epistemic std (the noise is 0.1):\n\n" + "\n".join(table) + "\n\n![wave](wave.png)"
    )


def _diabetes(out: Path, say: Say) -> str:
    """A detector on scikit-learn's diabetes table: ordinary held-out rows, and rows with a slip in the data entry."""
    table = load_diabetes(scaled=False)
    X, y, columns = table.data, table.target, list(table.feature_names)
    X_train, X_new, y_train, y_new = train_test_split(X, y, test_size=60, random_state=0)
    slipped = X_new[:20].copy()
    slipped[:, columns.index("bmi")] *= 10  # the decimal point lost
    _write_tables(out, columns, (X_train, y_train), X_new)
    say(f"\nA real table: {len(X_train)} diabetes patients, {X.shape[1]} columns, disease progression after a year.")
    detector = OODDetector(DiverseRegressor(random_state=0, verbose=True), false_alarm_rate=0.05, random_state=0)
    started = time.perf_counter()
    detector.fit(X_train, y_train)
    seconds = time.perf_counter() - started
    ordinary, strange = detector.verdicts(X_new), detector.verdicts(slipped)
    error, spread = rmse(y_new, ordinary["prediction"]), float(np.std(y_train))
    flagged, caught = int(ordinary["is_ood"].sum()), int(strange["is_ood"].sum())
    box = np.random.default_rng(0).uniform(X_train.min(axis=0), X_train.max(axis=0), (2000, X.shape[1]))
    nu = -detector.score_samples(box)
    separation = auc(ordinary["ood_score"], nu)
    with complete_file(out / "diabetes.csv") as file, file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["kind", *columns, *ordinary])
        for kind, rows, verdicts in (("ordinary", X_new, ordinary), ("bmi x 10", slipped, strange)):
            for row, *answers, is_ood, reason in zip(rows, *verdicts.values(), strict=True):
                writer.writerow([kind, *row, *answers, str(is_ood).lower(), reason])
    samples = {"ordinary new rows": ordinary["ood_score"], "uniform in the box": nu, "bmi x 10": strange["ood_score"]}
    draw_uncertainty(out / "diabetes.png", samples, -detector.offset_, "target units")
    lines = [
        f"fitted and calibrated ({detector.calibration_}) in {seconds:.0f} s",
        f"error on {len(X_new)} new rows: {error:.1f} (always answering the mean: {spread:.1f})",
        f"flagged at a false-alarm rate of 5%: {flagged} of {len(X_new)} ordinary rows",
        f"flagged: {caught} of {len(slipped)} rows whose bmi lost its decimal point",
        f"AUC of ordinary rows against the uniform box: {separation:.3f}",
    ]
    for line in lines:
        say(f"  {line}")
    return "## Diabetes\n\n" + "\n".join(f"* {line}" for line in lines) + "\n\n![uncertainty](diabetes.png)"


def _write_tables(out: Path, columns: list[str], known: tuple[np.ndarray, np.ndarray], new: np.ndarray) -> None:
    """patients.csv to learn from, and new-patients.csv: ordinary rows, of which three have a slip of the pen."""
    rows: list[list[Any]] = [[f"N{number:03}", *row.tolist()] for number, row in enumerate(new, start=1)]
    bmi, pressure, age = (1 + columns.index(name) for name in ("bmi", "bp", "age"))
    rows[5][bmi] *= 10  # the decimal point lost
    rows[17][pressure] = ""  # not measured
    rows[41][age] += 100
    learned = [[f"P{number:03}", *row.tolist(), y] for number, (row, y) in enumerate(zip(*known, strict=True), start=1)]
    for name, header, table in (
        ("patients.csv", ["patient", *columns, "progression"], learned),
        ("new-patients.csv", ["patient", *columns], rows),
    ):
        with complete_file(out / name) as file, file.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([header, *table])
