"""One cell of the study, and the record that is kept of it: which keys it has, and how numbers become JSON."""

import json
import math
from typing import Any, NamedTuple

Record = dict[str, Any]

KEYS = {
    "protocol": "which settings: a key of PROTOCOLS, or one with some changed, such as default:activation=tanh",
    "dataset": "which table",
    "method": "which method or baseline",
    "seed": "of the fit and of the rows off the map; also of the split for alarms, which is the same otherwise",
    "auc": "all rows against 10,000 rows of nu, by U",
    "auc_test": "test rows against the same rows of nu",
    "auc_permuted": "test rows against 10,000 rows whose columns come from different training rows",
    "rmse": "test rows, in target units",
    "lpp": "mean log predictive density of test rows, in nats, target units",
    "lpp_variance_only": "the same from the members' variance alone, without the noise; ensemble only",
    "entropy_parameter": "of up to 1,000 draws of theta, in nats; null where theta has no density",
    "entropy_predictor": "of the same draws at 100 sets of rows of nu, in nats, for the standardised target. "
    "mc-dropout: of 1,000 values at every row, each with a mask of its own",
    "seconds": "of the fit, by the clock, compilation included",
    "cpu_seconds": "of the fit, over all threads",
    "peak_memory_mb": "of the whole process",
    "cores": "that the fit could use: with another number of them sums are rounded differently",
    "rhat": "the worst of predictions; hmc only",
    "ess": "the smallest bulk effective sample size of predictions; hmc only",
    "noise_std": "in target units",
    "prior_std": "of every parameter",
    "activation": "between the layers: as asked for, or as chosen from held-out rows",
    "settings": "every field of the method's value, and how it was used",
    "versions": "of Python and the libraries, and the kind of processor",
    "n_train": "rows",
    "n_test": "rows",
    "n_features": "columns",
    "u_train": "U of training rows: its quantiles at QUANTILE_LEVELS; null for -inf",
    "u_test": "of test rows",
    "u_ood": "of the rows of nu",
    "roc": "share of the rows of nu above the score that the share FALSE_POSITIVE_RATES of all rows exceeds",
    "bands": "x, mean and epistemic std of every point of a grid; wave only",
    "shifts": "by rule: how well the rows it holds out are told from others, and how much worse they are predicted",
    "alarms": "by evidence: shares of test rows and of rows of nu that are flagged at RATES, and their AUC by p-value",
    "warnings": "what the fit complained of",
    "command": "reruns this cell alone",
}
COSTS = ("seconds", "cpu_seconds", "peak_memory_mb")  # all else is the same in every run of a cell

QUANTILE_LEVELS = tuple(step / 50 for step in range(51))  # enough for a picture, and half of a record's size
RATES = (0.01, 0.05, 0.1)  # of false alarms, as promised
RHAT_LIMIT, ESS_LIMIT = 1.01, 1000  # of chains that have mixed
FALSE_POSITIVE_RATES = (0.0, *(10 ** (step / 15 - 4) for step in range(61)))


class Cell(NamedTuple):
    """One fit, or set of fits, of the study: what identifies a record."""

    protocol: str
    dataset: str
    method: str
    seed: int

    @classmethod
    def of(cls, record: Record) -> "Cell":
        """The cell that a record is about."""
        return cls(*(record[key] for key in cls._fields))

    def command(self, cores: int) -> str:
        """The command that runs this cell alone, to the same numbers on the same kind of processor."""
        return (
            f"offmap study run --protocol {self.protocol} --datasets {self.dataset} --methods {self.method} "
            f"--seed {self.seed} --cores {cores} --out rerun"
        )

    def __str__(self) -> str:
        return f"{self.protocol} {self.dataset} {self.method} seed {self.seed}"


def is_unmixed(record: Record) -> bool:
    """Whether chains were run, and are beyond a limit, or stuck so that there is no R-hat at all."""
    if record["rhat"] is None or record["ess"] is None:
        return bool(record["method"] == "hmc")
    return bool(record["rhat"] > RHAT_LIMIT or record["ess"] < ESS_LIMIT)


def as_line(record: Record) -> str:
    """A record as one line of JSON, its keys in the order of `KEYS`. Numbers that are not finite become null."""
    return json.dumps({key: _plain(record.get(key)) for key in KEYS}, allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
