"""What the report's page is made of, apart from how it looks."""

from __future__ import annotations

from dataclasses import dataclass, field

from posse_lab.reproduction.claims import Claim
from posse_lab.reproduction.experiment import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A figure as text.

    Parameters
    ----------
    name : str
        File name without its ending.
    svg : str
        The content of the SVG file.
    caption : str
    sources : tuple of str
        Result files, relative to the report.
    """

    name: str
    svg: str
    caption: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """A result file and how its numbers came about.

    Parameters
    ----------
    path : str
        Relative to the report.
    seeds : int
    settings : dict from str to str
        World, horizon and the rest in words.
    policies : dict from str to str
        What each policy says about its settings.
    """

    path: str
    seeds: int
    settings: dict[str, str]
    policies: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One experiment on the page.

    Parameters
    ----------
    name, title, figure, says : str
        As in :class:`~posse_lab.reproduction.experiment.Experiment`.
    choices : tuple of str
    found : tuple of str
        Paragraphs.
    pictures, tables, claims, files : tuples
    missing : str
        Why there are no results, if there are none.
    command : str
        What made the results.
    """

    name: str
    title: str
    figure: str
    says: str
    choices: tuple[str, ...]
    found: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    claims: tuple[Claim, ...] = ()
    files: tuple[ResultFile, ...] = ()
    missing: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole page.

    Parameters
    ----------
    version : str
        Of posse.
    chapters : tuple of Chapter
    command : str
        What makes this report.
    note : str
        What a reader should know before reading on, if anything.
    """

    version: str
    chapters: tuple[Chapter, ...]
    command: str
    note: str = ""

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The claims of all chapters, in their order."""
        return tuple(claim for chapter in self.chapters for claim in chapter.claims)
