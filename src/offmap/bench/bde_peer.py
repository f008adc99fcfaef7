"""scikit-learn-contrib's bde, the closest relative: Bayesian deep ensembles of tables, in an environment of its own.

It pins other versions than offmap needs. `python -m venv bde && bde/bin/pip install sklearn-contrib-bde`, and
`OFFMAP_BDE=bde/bin/python offmap bench` measures it, too.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

from offmap.bench.figure import Figure
from offmap.bench.quality import nothing_compiled, quality_of
from offmap.bench.tables import real
from offmap.cores import n_cores
from offmap.metrics import auc, rmse
from offmap.scaling import Scale
from offmap.study.measure import Split
from offmap.study.protocol import PROTOCOLS, Setup

SWITCH, TABLES, N_NU = "OFFMAP_BDE", ("yacht", "boston"), 10_000
# The settings of its own example, and the network that all methods have here.
SCRIPT = """
import json, sys, time
import numpy as np
from bde import BdeRegressor
from bde.loss import GaussianNLL
tables = np.load(sys.argv[1])
settings = dict(n_members=8, epochs=200, lr=1e-3, weight_decay=1e-4, warmup_steps=5000, n_samples=2000, n_thinning=2)
model = BdeRegressor(hidden_layers=[50], seed=0, loss=GaussianNLL(), validation_split=0.15, patience=10, **settings)
started = time.perf_counter()
model.fit(x=tables["X_train"], y=tables["y_train"])
seconds = time.perf_counter() - started
found = {"seconds": seconds}
for name in ("rows", "test", "nu"):
    found[name] = {"mean": [], "variance": []}
    for first in range(0, len(tables[name]), 200):  # more at once do not fit into memory
        means = np.asarray(model.predict(tables[name][first : first + 200], raw=True))[..., 0]
        draws = means.reshape(-1, means.shape[-1])
        found[name]["mean"] += draws.mean(axis=0).tolist()
        found[name]["variance"] += draws.var(axis=0).tolist()
print(json.dumps(found))
"""


def measure(data_dir: Path | None) -> Iterator[Figure]:
    """The default funn-hyvi beside bde, same rows, compilation included in both, where bde's Python is named."""
    python = os.environ.get(SWITCH)
    for table in real(list(TABLES), data_dir) if python else []:
        split, setup = Split.of(table.X, table.y), PROTOCOLS["default"].setups[table.key]
        with nothing_compiled():
            ours = quality_of(setup, split)
        theirs = _quality_of_bde(str(python), split, setup)
        for name, our, their in zip(("seconds", "AUC", "RMSE"), ours, theirs, strict=False):
            yield Figure(f"bde / default, {name}, {table.key}", their / our, "times", our, their)


def _quality_of_bde(python: str, split: Split, setup: Setup) -> tuple[float, float, float]:
    """Its seconds, AUC and RMSE. It wants standardised tables, and one XLA device for each processor."""
    x_scale, y_scale = Scale.of(split.X_train), Scale.of(split.y_train)
    tables = {
        "X_train": x_scale.standardise(split.X_train),
        "y_train": y_scale.standardise(split.y_train)[:, None],
        "rows": x_scale.standardise(np.concatenate([split.X_train, split.X_test])),
        "test": x_scale.standardise(split.X_test),
        "nu": np.asarray(setup.nu(split.X_train).sample(jax.random.key(0), N_NU)),
    }
    environment = os.environ | {"XLA_FLAGS": f"--xla_force_host_platform_device_count={n_cores()}"}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "tables.npz", **tables)  # type: ignore[arg-type]  # no allow_pickle among them
        command = [python, "-c", SCRIPT, str(Path(folder) / "tables.npz")]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found = json.loads(done.stdout.splitlines()[-1])
    separation = auc(np.array(found["rows"]["variance"]), np.array(found["nu"]["variance"]))
    return found["seconds"], separation, rmse(split.y_test, y_scale.restore(np.array(found["test"]["mean"])))
