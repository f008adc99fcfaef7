"""The published numbers: the paper's tables, as it prints them, by the key that a record has for the quantity."""

from typing import NamedTuple

from offmap.study.protocol import LARGE, SMALL

PUBLISHED_DATASETS = (*SMALL, *LARGE)
PUBLISHED_METHODS = ("hmc", "mc-dropout", "ensemble", "mfvi", "funn-mfvi", "nn-hyvi", "funn-hyvi")
PUBLISHED_FITS = 3  # that each of its numbers is a mean of
LARGER_IS_BETTER = {"auc": True, "entropy_parameter": True, "entropy_predictor": True, "rmse": False, "lpp": True}


class Published(NamedTuple):
    """One number of the paper, a mean of three fits, and its standard error where that is printed."""

    text: str
    standard_error: float | None = None

    @property
    def value(self) -> float:
        """The number."""
        return float(self.text)

    @property
    def decimals(self) -> int:
        """How many the paper prints."""
        return len(self.text.partition(".")[2])


_TABLES = {
    "auc": """
        boston     1.0000 0.9476 1.0000 0.9670 0.9964 0.9953 1.0000
        concrete   0.9957 0.9254 0.9998 0.9343 0.9891 0.9927 0.9977
        energy     0.9998 0.7483 1.0000 0.4104 0.9665 0.9999 1.0000
        wine       1.0000 0.9869 0.9997 0.9964 0.9957 0.9996 0.9996
        yacht      0.9890 0.4836 0.9958 0.5438 0.9443 0.8888 0.9826
        navalC     NA     1.0000 1.0000 0.8669 0.9578 1.0000 1.0000
        powerplant NA     0.9144 0.9335 0.8635 0.9335 0.9572 0.9626
        protein    NA     0.9999 0.9999 0.9988 0.9966 1.0000 1.0000""",
    "entropy_parameter": """
        boston     970    NA     332    567    -1117  1555   350
        concrete   635    NA     424    353    -697   1078   431
        energy     628    NA     193    348    -465   1098   334
        wine       615    NA     812    247    -1035  1455   -1596
        yacht      502    NA     152    263    -589   772    145
        navalC     NA     NA     636    -400   -2553  1726   -4777
        powerplant NA     NA     286    366    -832   1066   53
        protein    NA     NA     1205   788    -2189  2314   -1222""",
    "entropy_predictor": """
        boston     -5     -491   -171   -317   122    -398   294
        concrete   -107   -492   -211   -316   76     -423   273
        energy     -224   -506   -346   -587   -10    -301   160
        wine       -25    -234   7      -422   128    -285   254
        yacht      -244   -844   -574   -492   -83    -667   113
        navalC     NA     -167   -62    -719   136    -511   12
        powerplant NA     -607   -598   -571   -74    -760   169
        protein    NA     -18    93     -367   155    -71    372""",
    "rmse": """
        boston     2.63±0.02 2.29±0.034 2.73±0.039 3.5±0.009 4.97±0.708 2.65±0.016 3.05±0.105
        concrete   6.96±0.033 5.09±0.075 4.52±0.042 12.25±0.022 6.31±0.541 6.06±0.177 5.19±0.21
        energy     2.62±0.008 0.74±0.008 0.41±0.003 3.41±0.005 0.79±0.141 0.68±0.014 0.49±0.009
        wine       0.58±0.0007 0.60±0.009 0.57±0.004 0.62±0.01 0.7±0.002 0.73±0.006 0.72±0.03
        yacht      3.84±0.022 1.06±0.043 0.86±0.035 3.89±0.028 2.25±0.184 1.28±0.044 1.07±0.089
        navalC     NA 0.00038±1e-05 0.00041±2e-05 0.0005±5e-05 0.00095±2e-04 0.00025±3e-05 0.00025±3e-05
        powerplant NA 3.69367±0.01355 3.69755±3e-03 4.04913±0.02809 4.17883±0.0754 3.87214±0.01769 3.71361±0.01161
        protein    NA 4.38351±9e-04 4.1685±0.01109 4.88476±0.00709 4.48941±0.06054 4.5195±0.01208 4.25881±0.01487""",
    "lpp": """
        boston     -4.1±2e-04 -4.1±0.00014 -3.2±0.2008 -4.1±2e-04 -4.1±0.01011 -4.1±2e-04 -4.1±9e-4
        concrete   -5.3±1e-04 -5.2±7e-05 -3.6±0.1590 -5.3±2e-04 -5.2±8e-04 -5.2±2e-04 -5.2±2e-04
        energy     -3.6±2e-04 -3.6±1e-04 -1.6±0.47242 -3.6±2e-04 -3.6±6e-04 -3.6±2e-04 -3.6±2e-05
        wine       -0.9±7e-04 -1.0±0.02606 -1.5±0.06858 -1.1±0.03673 -1.5±0.00982 -1.5±0.0522 -1.6±0.13075
        yacht      -4.1±5e-04 -4.0±1e-04 -0.5±0.08407 -4.1±6e-04 -4.0±3e-03 -4.0±7e-05 -4.0±8e-05
        navalC     NA 6.07±0.02685 6.26±0.01591 -8.27±3.0823 -42.46±16.27946 4.71±0.72598 4.24±1.16301
        powerplant NA -4.89±1e-05 -60.64±10.19581 -4.89±4e-05 -4.89±4e-04 -4.89±2e-05 -4.89±2e-05
        protein    NA -4.23±1e-05 -16.72±0.81962 -4.23±6e-05 -4.23±7e-04 -4.23±1e-04 -4.22±9e-05""",
    "seconds": """
        boston     30000  67     193    118    238    138    246
        concrete   45000  123    378    169    351    264    405
        energy     30000  99     271    192    349    220    331
        wine       80000  183    459    569    573    642    533
        yacht      25000  43     132    105    138    108    184""",
}


def _read(table: str) -> dict[tuple[str, str], Published]:
    found = {}
    for line in table.strip().splitlines():
        dataset, *numbers = line.split()
        for method, number in zip(PUBLISHED_METHODS, numbers, strict=True):
            text, _, error = number.partition("±")
            if text != "NA":
                found[dataset, method] = Published(text, float(error) if error else None)
    return found


_PUBLISHED = {quantity: _read(table) for quantity, table in _TABLES.items()}


def published(quantity: str, dataset: str, method: str) -> Published | None:
    """What the paper says, None where it says nothing.

    >>> published("rmse", "yacht", "hmc")
    Published(text='3.84', standard_error=0.022)
    """
    return _PUBLISHED.get(quantity, {}).get((dataset, method))


def best_published(quantity: str, dataset: str) -> tuple[str, Published] | None:
    """The method that the paper's row is best for, and its number; the first of those that tie.

    >>> best_published("auc", "yacht")
    ('ensemble', Published(text='0.9958', standard_error=None))
    """
    # The paper's densities of ensembles are of another formula than the rest of their row.
    columns = [method for method in PUBLISHED_METHODS if (quantity, method) != ("lpp", "ensemble")]
    row = [(method, number) for method in columns if (number := published(quantity, dataset, method))]
    sign = 1 if LARGER_IS_BETTER.get(quantity, False) else -1
    return max(row, key=lambda pair: sign * pair[1].value, default=None)
