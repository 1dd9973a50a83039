"""Everything posse raises or warns of on purpose.

::

    PosseError
    ├── InvalidValue (ValueError)        a setting or an input is outside its range
    │   ├── ShapeError                   an array has the wrong number of axes or entries
    │   ├── NotFinite                    NaN or infinity where a number was expected
    │   └── NotPositiveDefinite          a covariance is not symmetric positive semidefinite
    ├── UnknownLabel (KeyError)          a name or number that nothing here goes by
    │   ├── UnknownTask
    │   ├── UnknownArm
    │   ├── UnknownPolicy
    │   ├── UnknownDataset
    │   └── UnknownDecision              no decision with this id waits for a reward
    │       └── ExpiredDecision          it waited for longer than its time to live
    ├── RewardConflict (ValueError)      a decision that has its reward was given another
    ├── ResultFileError (ValueError)     a result file that cannot be read or continued
    │   └── SettingsDiffer               the file holds a run with other settings
    ├── SavedFileError (ValueError)      a saved file that cannot be written or read
    │   ├── MissingFile                  the file, or the folder it should be written to, is not there (also a
    │   │                                FileNotFoundError)
    │   └── DamagedFile                  it is not whole, or not what it should hold, or from a newer posse
    ├── DataFileError (ValueError)       a data file that cannot be used
    │   ├── MissingData                  the file, or its folder, is not there (also a FileNotFoundError)
    │   ├── DamagedData                  the file is not what its makers published
    │   └── FetchFailed                  a download that did not come through
    ├── StorageError (ValueError)        a storage of decisions and rewards that cannot be used
    │   ├── StorageUnavailable           the database is away, busy or full: worth trying again
    │   └── StorageMismatch              it is not a storage of posse, or of a newer one
    ├── ServiceError (ValueError)        what a service answered instead of a result (in posse.client)
    ├── EvaluationRefused (ValueError)   a number that a log cannot give (in posse.offline)
    ├── NotFitted                        an estimator that has seen no data (in posse.regression, since it is also
    │                                    scikit-learn's NotFittedError where that is installed)
    └── MissingDependency (ImportError)  an optional library is needed for this

    PosseWarning (UserWarning)           a result that needs a second look, said once by what computed it
"""

from __future__ import annotations


class PosseError(Exception):
    """Base of every error that posse raises on purpose."""

    def __str__(self) -> str:
        # KeyError shows the repr of its argument; our messages are sentences and are shown as they are.
        return str(self.args[0]) if self.args else type(self).__name__


class PosseWarning(UserWarning):
    """A result that needs a second look: an estimate that did not come to rest, or that data could not support."""


class InvalidValue(PosseError, ValueError):
    """A setting or an input is outside its range."""


class ShapeError(InvalidValue):
    """An array has the wrong number of axes or entries."""


class NotFinite(InvalidValue):
    """NaN or infinity where a number was expected."""


class NotPositiveDefinite(InvalidValue):
    """A covariance is not symmetric positive semidefinite."""


class UnknownLabel(PosseError, KeyError):
    """A name or number that nothing here goes by."""


class UnknownTask(UnknownLabel):
    """No such task."""


class UnknownArm(UnknownLabel):
    """No such arm."""


class UnknownPolicy(UnknownLabel):
    """No policy is registered under this key."""


class UnknownDataset(UnknownLabel):
    """No dataset of the catalogue has this name."""


class UnknownDecision(UnknownLabel):
    """No decision with this id waits for a reward."""


class ExpiredDecision(UnknownDecision):
    """The decision waited for its reward for longer than its time to live."""


class RewardConflict(PosseError, ValueError):
    """A decision that has its reward was given another one."""


class ResultFileError(PosseError, ValueError):
    """A result file that cannot be read or continued."""


class SettingsDiffer(ResultFileError):
    """The file holds a run with other settings."""


class SavedFileError(PosseError, ValueError):
    """A saved file that cannot be written or read."""


class MissingFile(SavedFileError, FileNotFoundError):
    """The file, or the folder it should be written to, is not there."""


class DamagedFile(SavedFileError):
    """The file is not whole, not what it should hold, or of a version that this posse does not know."""


class DataFileError(PosseError, ValueError):
    """A data file that cannot be used."""


class MissingData(DataFileError, FileNotFoundError):
    """A data file, or the folder it should be in, is not there."""


class DamagedData(DataFileError):
    """A data file is not what its makers published."""


class FetchFailed(DataFileError):
    """A download did not come through."""


class StorageError(PosseError, ValueError):
    """A storage of decisions and rewards cannot be used."""


class StorageUnavailable(StorageError):
    """The database is away, busy or full; what was asked may be asked again."""


class StorageMismatch(StorageError):
    """The database is not a storage of posse, or was made by a newer one."""


class MissingDependency(PosseError, ImportError):
    """An optional library is needed for this."""
