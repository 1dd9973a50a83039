"""What a service answered instead of a result."""

from __future__ import annotations

from posse.errors import PosseError


class ServiceError(PosseError, ValueError):
    """A request that the service refused.

    Parameters
    ----------
    message : str
        What was wrong and what to do.
    status : int or None
        Of the answer; None if there was none.
    code : str
        What programs tell errors apart by, e.g. ``"unknown_fleet"``.
    field : str or None
        The part of the request that was wrong.
    """

    def __init__(self, message: str, *, status: int | None = None, code: str = "", field: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.field = field

    @property
    def message(self) -> str:
        """What was wrong and what to do."""
        return str(self)


class ServiceUnavailable(ServiceError):
    """The service could not be reached, or could not answer: nothing is wrong with what was asked."""
