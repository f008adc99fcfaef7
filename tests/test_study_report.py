"""The study's report: the paper's numbers, ours beside them, what misses, and pages that follow from the records."""

import json
import math
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from offmap.cli import app
from offmap.study.differences import differs, error_of_difference, reason
from offmap.study.figures import _density, _pooled
from offmap.study.findings import FINDINGS
from offmap.study.measure import quantiles
from offmap.study.pages import tables_page
from offmap.study.paper import PUBLISHED_DATASETS, PUBLISHED_METHODS, Published, best_published, published
from offmap.study.protocol import SMALL
from offmap.study.readme import readme_page
from offmap.study.record import FALSE_POSITIVE_RATES, Cell, as_line
from offmap.study.report import _by_method, picture_names, write_report
from offmap.study.run import chosen_cells
from offmap.study.runs import FILE, read_runs
from offmap.study.summary import EXPECTED, OverSeeds, Study
from offmap.study.tables import (
    alarm_power,
    beside_paper,
    false_alarms,
    of_protocol,
    row_texts,
    under_shifts,
    with_changes,
)
from tests.study_records import alarm_records, as_published, changed, default_records, record

RESULTS = Path(__file__).parent.parent / "docs" / "results"
run = CliRunner().invoke


def line_of(table: str, name: str) -> list[str]:
    """The cells of the row that starts with a name."""
    (line,) = (line for line in table.splitlines() if line.startswith(f"| {name} |"))
    return [text.strip() for text in line.strip("|").split("|")][1:]


def test_the_published_numbers_have_the_order_that_the_papers_text_claims() -> None:
    def largest(quantity: str, dataset: str) -> str:
        return max((number.value, m) for m in PUBLISHED_METHODS if (number := published(quantity, dataset, m)))[1]

    for dataset in PUBLISHED_DATASETS:
        assert largest("entropy_parameter", dataset) == "nn-hyvi"
        assert (largest("entropy_predictor", dataset) == "funn-hyvi") == (dataset != "navalC")
        assert (published("auc", dataset, "hmc") is None) == (dataset not in SMALL)
        assert (published("seconds", dataset, "hmc") is None) == (dataset not in SMALL)
    assert all(published("entropy_parameter", dataset, "mc-dropout") is None for dataset in PUBLISHED_DATASETS)
    assert published("rmse", "navalC", "funn-mfvi") == Published("0.00095", 2e-4)
    # Where the likelihood is so wide that nothing else matters, the density is the noise's (std_y 9.31 and 17.08).
    for dataset, noise, target_std in (("boston", 2.5, 9.31), ("powerplant", 3.1, 17.08)):
        number = published("lpp", dataset, "nn-hyvi")
        assert number is not None
        assert number.value == pytest.approx(-math.log(noise * target_std * math.sqrt(2 * math.pi)), abs=0.05)


def test_the_best_of_a_row_is_the_largest_or_the_smallest_and_leaves_out_the_other_formula() -> None:
    assert best_published("auc", "powerplant") == ("funn-hyvi", Published("0.9626"))
    assert best_published("rmse", "energy") == ("ensemble", Published("0.41", 0.003))
    assert best_published("lpp", "yacht") == ("mc-dropout", Published("-4.0", 1e-4))
    assert best_published("auc", "diabetes") is best_published("auc_test", "yacht") is None


def test_a_cell_is_mean_and_std_over_seeds_with_the_paper_in_brackets_and_the_best_in_bold() -> None:
    study = Study.of(
        [
            *(record("paper", "yacht", "hmc", seed, auc=auc) for seed, auc in enumerate((0.97, 0.98, 0.99))),
            record("paper", "yacht", "ensemble", auc=0.99584),
            record("paper", "yacht", "funn-hyvi", auc=0.99582),
            record("paper", "yacht", "nn-hyvi", auc=None),
            record("default", "yacht", "mfvi", auc=0.9999),
        ]
    )
    row = line_of(beside_paper(study, "auc"), "yacht")
    assert row[0] == "0.9800 ± 0.0100 (0.9890)"
    assert row[2] == "**0.9958** (0.9958)"
    assert row[3] == "\N{EN DASH} (0.5438)"
    assert row[5] == "n/a (0.8888)"
    assert row[6] == "**0.9958** (0.9826)<sup>a</sup>"
    assert line_of(beside_paper(study, "auc"), "protein")[0] == "\N{EN DASH} (NA)"


def test_a_seed_without_a_number_leaves_none_to_the_cell() -> None:
    """A density of -inf is kept as null: the mean of the others would be too good."""
    study = Study.of([record("paper", "yacht", "hmc", seed, lpp=lpp) for seed, lpp in enumerate((-4.0, None))])
    assert study.over_seeds("lpp", "paper", "yacht", "hmc") is None
    assert line_of(beside_paper(study, "lpp"), "yacht")[0] == "n/a (-4.1)"


def test_errors_are_printed_to_three_digits_whatever_their_unit_and_smaller_is_better() -> None:
    small = {"hmc": OverSeeds(0.000251, 0.00001, 3), "mfvi": OverSeeds(0.0005, None, 1), "ensemble": None}
    assert row_texts("rmse", small) == {"hmc": "**0.000251** ± 0.000010", "mfvi": "0.000500"}
    assert row_texts("rmse", {"hmc": OverSeeds(12.345, None, 1)}) == {"hmc": "**12.35**"}
    assert row_texts("seconds", {"hmc": OverSeeds(61.4, None, 1)}) == {"hmc": "**61**"}
    assert row_texts("entropy_predictor", {"hmc": OverSeeds(-0.2, None, 1)}) == {"hmc": "**0**"}


def test_only_differences_beyond_noise_are_marked() -> None:
    paper = Published("0.9000")
    assert not differs("auc", OverSeeds(0.9099, None, 1), paper)
    assert differs("auc", OverSeeds(0.8899, 0.003, 3), paper)
    assert not differs("auc", OverSeeds(0.8899, 0.0042, 3), paper)  # three standard errors are 0.0103
    assert differs("auc", OverSeeds(0.8899, 0.0042, 10), paper)
    assert differs("rmse", OverSeeds(2.23, None, 1), Published("2.00"))
    assert not differs("rmse", OverSeeds(2.23, 0.03, 3), Published("2.00", 0.08))
    assert differs("rmse", OverSeeds(2.23, 0.03, 3), Published("2.00", 0.05))
    assert not differs("seconds", OverSeeds(1.0, None, 1), Published("30000"))


@pytest.mark.parametrize(("n", "says"), [(10, "both"), (10, "ours"), (1, "theirs")])
def test_the_error_of_a_difference_is_what_means_over_fits_scatter_by(n: int, says: str) -> None:
    """Simulated: our mean of `n` fits and the paper's of three, all of the same distribution."""
    fits = np.random.default_rng(0).normal(0.0, 2.0, (20_000, n + 3))
    scatter = float(np.std(fits[:, :n].mean(axis=1) - fits[:, n:].mean(axis=1)))
    ours = OverSeeds(1.0, None if says == "theirs" else 2.0, n)
    theirs = Published("3.0", None if says == "ours" else 2.0 / math.sqrt(3))
    assert error_of_difference(ours, theirs) == pytest.approx(scatter, rel=0.02)
    assert error_of_difference(OverSeeds(1.0, None, 1), Published("3.0")) == 0


def test_footnotes_say_why_where_it_is_known_and_that_it_is_not_where_it_is_not() -> None:
    study = Study.of(
        [
            record("paper", "boston", "mfvi", auc=0.5, lpp=-9.0),
            record("paper", "boston", "mc-dropout", auc=0.5, lpp=-4.1),
            record("paper", "concrete", "mc-dropout", auc=0.5),
            record("paper", "boston", "nn-hyvi", auc=0.9953),
            record("paper", "yacht", "nn-hyvi", auc=0.95),
            record("paper", "boston", "ensemble", auc=1.0, lpp=-5.1, lpp_variance_only=-3.15),
        ]
    )
    auc, lpp = beside_paper(study, "auc"), beside_paper(study, "lpp")
    marks = dict(re.findall(r"\n<sup>(.)</sup> (.*)", auc))
    letters = {name: re.sub(r".*<sup>|</sup>", "", line_of(auc, name)[1]) for name in ("boston", "concrete")}
    assert len(marks) == 3
    assert marks[letters["boston"]] == marks[letters["concrete"]] == "Differs; not explained."
    assert "for the better; not explained" in marks[re.sub(r".*<sup>|</sup>", "", line_of(auc, "yacht")[5])]
    assert "variance" in marks[re.sub(r".*<sup>|</sup>", "", line_of(auc, "boston")[3])]
    assert "<sup>" not in line_of(auc, "boston")[5]
    assert line_of(lpp, "boston")[7] == "-3.15"
    assert "variance alone" in lpp
    assert "wide" not in lpp
    assert reason("auc", "wine", "mc-dropout") is None
    assert reason("auc", "navalC", "ensemble") is None
    assert "0.02" in str(reason("lpp", "navalC", "nn-hyvi"))


def test_a_whole_study_has_three_seeds_of_small_tables_and_one_of_large_ones() -> None:
    assert len(EXPECTED) == len(set(EXPECTED)) == 5 * 7 * 3 + 3 * 7
    records = as_published()
    assert Study.of(records).missing() == []
    gone = [Cell("paper", "wine", "mfvi", 2), Cell("paper", "protein", "hmc", 0)]
    fewer = Study.of([one for one in records if Cell.of(one) not in gone])
    assert fewer.missing() == gone
    page = readme_page(fewer, [])
    assert "124 of the 126 cells" in page
    assert "* wine: mfvi (2)\n* protein: hmc (0)\n" in page
    none_of_it = Study.of([one for one in records if one["dataset"] != "protein"])
    assert "* protein: all\n" in readme_page(none_of_it, [])


def test_baselines_stand_beside_our_methods_and_the_best_of_the_paper() -> None:
    study = Study.of(default_records(0.99, 0.98, 1.2))
    table = of_protocol(study, "default", "auc")
    assert table.startswith("|  | hmc | funn-hyvi | knn-distance | gaussian-process | best of the paper |\n")
    assert line_of(table, "yacht") == ["0.9900", "0.9826", "0.9800", "**1.0000**", "0.9958 ensemble"]
    errors = of_protocol(study, "default", "rmse")
    assert errors.startswith("|  | hmc | funn-hyvi | gaussian-process | best of the paper |\n")  # no column of n/a
    assert line_of(errors, "yacht") == ["0.620", "1.200", "**0.600**", "0.86 ensemble"]


def test_shifts_have_a_row_a_rule_and_the_area_lies_between_the_best_order_and_chance() -> None:
    numbers = {"auc": 0.8, "error_ratio": 3.0, "spearman": 0.5, "aurc": 4.0, "aurc_random": 10.0, "aurc_oracle": 2.0}
    nothing = dict.fromkeys(numbers) | {"auc": 0.9}
    study = Study.of(
        [
            record("shifts", "yacht", "hmc", shifts={"outer half": numbers, "middle half": numbers | {"aurc": 2.0}}),
            record("shifts", "yacht", "knn-distance", shifts={"outer half": nothing, "middle half": nothing}),
        ]
    )
    assert line_of(under_shifts(study, "auc"), "yacht: outer half") == ["0.8000", "**0.9000**"]
    assert line_of(under_shifts(study, "aurc"), "yacht: outer half") == ["**0.25**"]
    assert line_of(under_shifts(study, "aurc"), "yacht: middle half") == ["**0.00**"]
    assert line_of(under_shifts(study, "error_ratio"), "yacht: outer half") == ["3.00"]  # nothing is best here


def test_false_alarms_are_crossed_only_beyond_three_standard_errors() -> None:
    table = false_alarms(Study.of(alarm_records(0.05, 0.07)))
    assert "| yacht | funn-hyvi: both | 2 | 0.0000 ± 0.0000 | 0.0600 ± 0.0100 | 0.1000 ± 0.0000 |" in table
    assert "**0.0700 ± 0.0001** ✗" in false_alarms(Study.of(alarm_records(0.0699, 0.0701)))


def test_power_is_that_at_five_percent_and_each_kind_of_evidence_has_a_column() -> None:
    study = Study.of(alarm_records(0.05, 0.05))
    assert alarm_power(study, "power").startswith("|  | funn-hyvi: both | funn-hyvi: novelty | knn-distance |\n")
    all_of_nu = "**1.0000** ± 0.0000"
    assert line_of(alarm_power(study, "power"), "yacht") == ["0.4500 ± 0.0000", all_of_nu, all_of_nu]
    assert line_of(alarm_power(study, "auc"), "yacht")[0] == "**0.9700** ± 0.0000"


def test_findings_count_and_conclude_only_where_most_tables_agree() -> None:
    records = as_published()
    said = " ".join(finding(Study.of(records)) for finding in FINDINGS)
    assert "on 7 of 8 tables (in the paper on 7 of 8): inference" in said
    assert "on 8 of 8 tables (in the paper on 8 of 8)" in said
    for dataset in ("boston", "wine", "protein"):  # now it is largest on four of eight
        records = changed(records, dataset, "ensemble", entropy_predictor=1000.0)
    said = " ".join(finding(Study.of(records)) for finding in FINDINGS)
    assert "on 4 of 8 tables (in the paper on 7 of 8)." in said
    one = Study.of([one for one in records if one["dataset"] == "yacht"])
    assert "on 1 of 1 tables (in the paper on 7 of 8)." in " ".join(finding(one) for finding in FINDINGS)
    assert "to 3 nats, on 5 of 5 tables: it is the same posterior" in said
    for dataset in ("boston", "wine", "yacht"):
        records = changed(records, dataset, "hmc", entropy_parameter=0.0)
    said = " ".join(finding(Study.of(records)) for finding in FINDINGS)
    assert "to 3 nats, on 2 of 5 tables." in said
    one = Study.of([one for one in records if one["method"] == "mfvi"][:1])
    assert "What the numbers say" not in readme_page(one, [])


def test_a_variant_stands_beside_its_protocol() -> None:
    errors = {"default": (0.5, 0.6, 0.7), "default:noise=0.1": (0.4, 0.5)}
    records = [
        record(protocol, "yacht", "ensemble", seed, rmse=error, auc=0.99)
        for protocol, every in errors.items()
        for seed, error in enumerate(every)
    ]
    records.append(record("paper:prior_std=1", "boston", "hmc", auc=0.9, rmse=2.0, rhat=1.2, ess=9.0))
    study = Study.of(records)
    rows = with_changes(study).splitlines()[2:]
    none, no = "n/a (n/a)", "(\N{EN DASH})"
    assert rows == [
        f"| `default:noise=0.1` | yacht | ensemble | 2 | 0.9900 (0.9900) | 0.450 (0.600) |{f' {none} |' * 3}",
        f"| `paper:prior_std=1` | boston | hmc | 1 |{f' not mixed {no} |' * 5}",
    ]
    page = readme_page(study, [])
    assert "| other settings | 3 |" in page
    assert "--protocol default:noise=0.1 --datasets yacht --methods ensemble --seeds 2 " in page


def test_hours_are_those_of_two_busy_cores() -> None:
    study = Study.of(
        [record("paper", "yacht", "hmc", n, seconds=1800.0, cores=1 + n, rhat=1.0, ess=1e4) for n in (0, 1)]
    )
    assert "| paper | 2 | 1.00 | 0.75 |" in readme_page(study, [])


def test_the_printed_commands_run_what_is_there() -> None:
    records = [*as_published(), *(record("default", name, "ensemble") for name in ("boston", "protein"))]
    records.append(record("paper", "navalC", "nn-hyvi", 1))  # a second seed of one method
    commands = re.findall(r"^offmap study run .*$", readme_page(Study.of(records), []), re.MULTILINE)
    assert len(commands) == 5
    cells = []
    for command in commands:
        options = dict(re.findall(r"--(\w+) (\S+)", command))
        datasets, methods = options["datasets"].split(","), options["methods"].split(",")
        cells += chosen_cells(options["protocol"], datasets, methods, range(int(options["seeds"])))
        assert options["cores"] == "1"
    assert sorted(cells) == sorted(Cell.of(one) for one in records)


def test_missing_cells_are_listed() -> None:
    records = [one for one in as_published() if Cell.of(one) != Cell("paper", "navalC", "hmc", 0)]
    page = readme_page(Study.of(records), [])
    assert "125 of the 126 cells" in page
    assert "* navalC: hmc (0)" in page


def test_the_same_records_give_the_same_bytes_in_whatever_order_they_come(tmp_path: Path) -> None:
    lines = [as_line(one) for one in [*as_published(), *default_records(0.99, 0.98, 1.0)]]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / FILE).write_text("".join(line + "\n" for line in lines))
    random.Random(0).shuffle(lines)
    (tmp_path / "shuffled.jsonl").write_text("".join(line + "\n" for line in lines))
    for runs, out in (("runs", "one"), ("shuffled.jsonl", "two"), ("one", "three")):  # the last: a report of a report
        assert write_report(tmp_path / runs, tmp_path / out, say=lambda text: None) == []
    names = ["README.md", FILE, "tables.md"]
    assert sorted(file.name for file in (tmp_path / "one").iterdir()) == names
    for name in names:
        assert len({(tmp_path / out / name).read_bytes() for out in ("one", "two", "three")}) == 1
    assert (tmp_path / "one" / FILE).read_bytes() == (tmp_path / "runs" / FILE).read_bytes()
    kept = {"auc", "auc_test", "rmse", "lpp", "entropy_parameter", "entropy_predictor", "seconds", *Cell._fields}
    assert all(kept <= set(json.loads(line)) for line in (tmp_path / "one" / FILE).read_text().splitlines())


def test_a_corrupt_line_is_told_of_and_the_rest_used(tmp_path: Path) -> None:
    good = [as_line(record("paper", "yacht", "hmc", seed, auc=0.99, rhat=1.0, ess=1e4)) for seed in (0, 1)]
    (tmp_path / FILE).write_text(f"{good[0]}\n{good[1][:50]}\n{good[1]}\n")
    result = run(app, ["study", "report", str(tmp_path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 0
    assert "line 2 is left out" in result.stderr
    assert (tmp_path / "out" / FILE).read_text().splitlines() == good
    assert "Traceback" not in result.stderr


def test_no_runs_are_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    result = run(app, ["study", "report", str(tmp_path), "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "no finished cell" in result.stderr
    assert "offmap study run" in result.stderr
    assert not (tmp_path / "out").exists()


def normal_quantiles(mean: float) -> list[float | None]:
    values = np.sort(np.random.default_rng(0).standard_normal(10_001) + mean)[::200]
    return [None, *(float(value) for value in values[1:])]


def with_curves(dataset: str, method: str, seed: int) -> Any:
    lists = {"u_train": normal_quantiles(0), "u_test": normal_quantiles(0.2), "u_ood": normal_quantiles(3.0)}
    roc = [rate**0.1 for rate in FALSE_POSITIVE_RATES]
    return record("paper", dataset, method, seed, auc=0.9, roc=roc, n_train=90, n_test=10, **lists)


def test_pictures_are_drawn_small_and_shown_on_the_page(tmp_path: Path) -> None:
    x = np.linspace(-4, 2, 50)
    bands = {"x": x.tolist(), "mean": np.cos(x).tolist(), "std": np.abs(x).tolist()}
    records = [record("paper", "wave", method, bands=bands, auc=0.9, roc=[1.0]) for method in PUBLISHED_METHODS]
    records += [with_curves("yacht", method, seed) for method in ("hmc", "funn-hyvi") for seed in (0, 1)]
    (tmp_path / FILE).write_text("".join(as_line(one) + "\n" for one in records))
    write_report(tmp_path, tmp_path / "out", say=lambda text: None)
    page = (tmp_path / "out" / "README.md").read_text()
    for name in ("wave.png", "yacht-uncertainty.png", "yacht-roc.png"):
        assert (tmp_path / "out" / name).stat().st_size < 150_000
        with Image.open(tmp_path / "out" / name) as picture:
            assert 1100 < picture.width < 1700
        assert f"![{name.removesuffix('.png')}]({name})" in page


def test_pictures_leave_out_draws_that_have_not_mixed() -> None:
    mixed, unmixed = (with_curves("yacht", "hmc", 0) | {"rhat": rhat, "ess": 2000.0} for rhat in (1.0, 1.02))
    other = with_curves("yacht", "mfvi", 0)
    assert list(_by_method(Study.of([mixed, other]), "yacht")) == ["hmc", "mfvi"]
    assert list(_by_method(Study.of([mixed, unmixed | {"seed": 1}, other]), "yacht")) == ["mfvi"]


def test_densities_are_those_that_the_quantiles_came_from() -> None:
    values = _pooled([with_curves("yacht", "hmc", 0), with_curves("yacht", "hmc", 1)], "u_ood")
    x = np.linspace(-1, 7, 300)
    assert _density(values, x) == pytest.approx(np.exp(-0.5 * (x - 3) ** 2), abs=0.1)
    assert np.all(_density(np.array([]), x) == 0)


def test_an_extreme_row_weighs_as_one_row_and_rows_without_u_as_none() -> None:
    ordinary = np.linspace(0, 1, 10_000)
    far = np.append(ordinary, 50.0)  # the largest quantile is this row alone
    values = _pooled([record("paper", "yacht", "hmc", u_ood=[*quantiles(far), None])], "u_ood")
    x = np.linspace(-1, 51, 2000)
    assert _density(values, x)[x > 2].max() < 0.02
    assert np.mean(values > 2) <= 0.02  # one gap of fifty
    assert not len(_pooled([record("paper", "yacht", "hmc", u_ood=[None])], "u_ood"))


@pytest.mark.skipif(not RESULTS.exists(), reason="the study's results are not here")
def test_the_recorded_tables_follow_from_the_recorded_cells() -> None:
    """Byte for byte, but for the pictures: versions of matplotlib draw a little differently."""
    records, problems = read_runs(RESULTS)
    study = Study.of(records)
    assert problems == []
    assert (RESULTS / FILE).read_text() == "".join(as_line(one) + "\n" for one in study.records)
    assert (RESULTS / "tables.md").read_text() == tables_page(study)
    assert (RESULTS / "README.md").read_text() == readme_page(study, picture_names(study))
    assert all((RESULTS / name).exists() for name in picture_names(study))
