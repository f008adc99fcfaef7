"""tables.md: every table of the study, with what is needed to read it."""

from collections.abc import Callable, Mapping
from functools import partial

from offmap.study.summary import Study
from offmap.study.tables import (
    NOT_APPLICABLE,
    NOT_MIXED,
    NOT_RUN,
    alarm_power,
    beside_paper,
    false_alarms,
    hmc_diagnostics,
    of_protocol,
    under_shifts,
    with_changes,
)

_PAPER = {
    "auc": """Table 1: AUC
All rows of the table, training and test, against 10,000 draws of nu, by U. Larger is better.""",
    "entropy_parameter": """Table 2, upper half: entropy in parameter space
In nats, of 1,000 draws of theta (of all members of an ensemble, which are 10 or 5). Dropout chooses among finitely many
thetas, which have no differential entropy. Distances under 1.2e-7 count as 1.2e-7, as in the authors' code: numbers
thousands below zero come from draws that coincide.""",
    "entropy_predictor": """Table 2, lower half: entropy in predictor space
In nats, of the same draws as functions, at 100 sets of 200 rows of nu, for the standardised target.""",
    "rmse": """RMSE
Test rows, in target units. Smaller is better.""",
    "lpp": """Log predictive density (LPP)
Mean over test rows, in nats, in target units, by the formula that the paper states: the mean of the draws' densities,
or for `ensemble` and `mc-dropout` a Gaussian with the draws' variance plus sigma_l squared. Larger is better.""",
    "seconds": """Running time
Seconds of a fit, by the clock, compilation included, on as many processors as the record says and with other cells
beside it. The paper's are of a GPU, and of CPUs for `hmc`: they are no comparison of methods.""",
}
_OURS = {
    "auc": "AUC, all rows against draws of nu",
    "auc_test": "AUC, test rows against draws of nu",
    "auc_permuted": "AUC, test rows against permuted columns: each column of a row from another training row",
    "rmse": "RMSE",
    "lpp": "LPP",
    "seconds": "Seconds of a fit",
}
_SHIFTS = {
    "auc": "AUC of the rows held out against test rows",
    "error_ratio": "RMSE of the rows held out over that of test rows",
    "spearman": "Spearman correlation of U and squared error",
    "aurc": "Area under the risk-coverage curve: 0 is the order of the errors themselves, 1 a random order",
}
_HOW_TO_READ = f"""\
Ours first, the paper's in brackets; mean ± std over seeds where there is more than one (how many is in the commands of
[README.md](README.md)); the best of our row in bold.
"{NOT_RUN}" was not run, "{NOT_APPLICABLE}" does not apply, "NA" is not in the paper. "{NOT_MIXED}" stands where the
draws of `hmc` have not ([how far they are](#did-the-draws-of-hmc-mix)): their numbers are not the posterior's.
A letter marks a number that differs from the paper's beyond noise: by more than .01 (AUC), 20 nats (entropy), 10%
(RMSE) or 0.1 nats (LPP), and by more than three standard errors of the difference of the two means; the paper's are of
three fits."""
_DEFAULT = """\
The noise in target units, found from the rows, and the same settings for every table. The baselines are scikit-learn's;
those in input space know nothing of the target and predict nothing. The last column is the best of the paper's row."""
_HELD_OUT = """\
A rule holds rows of the table out, and these count as off the map; the rest is split as always."""
_RINGING = """\
Every seed is another split, a fifth of the rows for testing. The alarm is the default detector's, and each kind of
evidence alone; `knn-distance` and `isolation-forest` are calibrated on the same rows in the same way. Mean over splits:
for false alarms ± its standard error (✗ is beyond the promised rate by three of them), elsewhere ± the std."""
_CHANGED = """\
Means over seeds under a protocol with the settings changed that stand behind its name; in brackets those of the
protocol itself. The default's settings were chosen on other rows: these are test rows, to show, not to choose.
`offmap study run` takes any such name."""
_NONE = "Not run."
_CHAINS = """\
The worst of 200 predictions, at training rows and at rows of nu. The paper's protocol compares populations on four
small tables, and chains on the others; the default compares chains. Limits: R-hat 1.01, bulk ESS 1,000; ✗ is beyond."""


def tables_page(study: Study) -> str:
    """Every table, as Markdown."""
    parts = [
        "# The study in tables",
        "Made from [study.jsonl](study.jsonl); [README.md](README.md) says what they mean.",
        "## The paper's protocol",
        _HOW_TO_READ,
    ]
    for quantity, text in _PAPER.items():
        title, _, note = text.partition("\n")
        parts += [f"### {title}", note, beside_paper(study, quantity)]
    parts += ["## The default protocol, and baselines beside it"]
    parts += (
        _section(_DEFAULT, _OURS, partial(of_protocol, study, "default")) if any(study.cells("default")) else [_NONE]
    )
    parts += ["## Real shifts"]
    parts += _section(_HELD_OUT, _SHIFTS, partial(under_shifts, study)) if any(study.cells("shifts")) else [_NONE]
    parts += ["## Alarms"]
    parts += _alarms(study) if any(study.cells("alarms")) else [_NONE]
    parts += ["## Other settings", *([_CHANGED, with_changes(study)] if study.variants() else [_NONE])]
    parts += [
        "## Did the draws of hmc mix?",
        _CHAINS,
        hmc_diagnostics(study),
        "## One cell again",
        _how_to_rerun(study),
    ]
    return "\n\n".join(parts) + "\n"


def _alarms(study: Study) -> list[str]:
    return [
        _RINGING,
        *("### Share of ordinary rows that are flagged", false_alarms(study)),
        *("### Share of rows of nu that are flagged at 5%", alarm_power(study, "power")),
        *("### AUC, test rows against draws of nu, by p-value", alarm_power(study, "auc")),
    ]


def _section(note: str, titles: Mapping[str, str], table: Callable[[str], str]) -> list[str]:
    """A note, and a table of every quantity under its title."""
    return [note, *(part for quantity, title in titles.items() for part in (f"### {title}", table(quantity)))]


def _how_to_rerun(study: Study) -> str:
    return (
        "Every record has the `command` that reruns it alone, to the same numbers on the same machine:\n\n"
        "```\noffmap study run --protocol P --datasets D --methods M --seed S --cores C --out rerun\n```\n\n"
        f"The first record here, for example:\n\n```\n{study.records[0]['command']}\n```"
    )
