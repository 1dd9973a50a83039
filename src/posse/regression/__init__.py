"""Regression for grouped rows: every group its own coefficients, all groups one population."""

from posse.regression.base import NotFitted
from posse.regression.generalised import HierarchicalClassifier, HierarchicalCountRegressor
from posse.regression.regressor import HierarchicalRegressor

__all__ = ["HierarchicalClassifier", "HierarchicalCountRegressor", "HierarchicalRegressor", "NotFitted"]
