"""offmap report: one self-contained HTML page about a model and a table that it judged."""

from offmap.report.card import Origin
from offmap.report.page import write_report

__all__ = ["Origin", "write_report"]
