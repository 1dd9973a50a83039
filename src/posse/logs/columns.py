"""What becomes of the columns of a table when it is read as a log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """What the owner of a table calls its tasks, arms and rewards; reports use these words.

    Parameters
    ----------
    task, arm, reward : str
        Singular nouns, such as store, offer and sale.
    """

    task: str = "task"
    arm: str = "arm"
    reward: str = "reward"


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """What a column is used for.

    Parameters
    ----------
    name : str
        The column.
    use : {"task", "arm", "reward", "propensity", "time", "decision id", "feature", "left out"}
    note : str
        More about it: the kind of a feature, or why it is left out.
    """

    name: str
    use: str
    note: str = ""
