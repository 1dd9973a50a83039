"""Declared features of a context: numbers, categories and hashed categories, and the columns they become."""

from posse.features.categories import Hashed, OneHot, hashed, one_hot
from posse.features.quantities import Numeric, numeric
from posse.features.spec import FeatureSpec

__all__ = ["FeatureSpec", "Hashed", "Numeric", "OneHot", "hashed", "numeric", "one_hot"]
