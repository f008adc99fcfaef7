"""What both estimators share: rows checked at the door, fits that happen whole or not at all, and saving."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from offmap.artifact import save
from offmap.checks import refuse_gaps, refuse_other_columns, refuse_text_columns, target_as_numbers


class TableEstimator(BaseEstimator):
    """A scikit-learn estimator of tables of numbers."""

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write a model directory that `offmap.load` reads back to the same numbers."""
        save(self, path, overwrite)

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Undo every change to the estimator when the block fails or is interrupted."""
        before = self.__dict__.copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _training_rows(self, X: Any, y: Any, at_least: int) -> tuple[np.ndarray, np.ndarray]:
        """The rows to learn from as float64, or an error in the user's words. Notes the columns on the estimator."""
        refuse_text_columns(X)
        if y is not None:
            y = target_as_numbers(y, X)
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=at_least, ensure_all_finite=False)
        refuse_gaps(X, "X", getattr(self, "feature_names_in_", None))
        return X, y

    def _new_rows(self, X: Any) -> np.ndarray:
        """New rows as float64, with the columns of the fit, or an error in the user's words."""
        check_is_fitted(self)
        refuse_text_columns(X)
        names = getattr(self, "feature_names_in_", None)
        refuse_other_columns(X, type(self).__name__, self.n_features_in_, names)
        X = validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=False)
        refuse_gaps(X, "X", names)
        return X
