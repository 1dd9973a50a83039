"""What a wheel has of the documentation: the pages as text, for ``posse docs``."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PagesInWheel(BuildHookInterface):
    """Put the pages into the package; an editable installation reads them where they are."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Tell hatchling which files go where."""
        if version == "editable":
            return
        root = Path(self.root)
        pages = {page: page.name for page in sorted((root / "docs").glob("*.md"))}
        pages |= {root / "docs" / "changes.md": "", root / "CHANGELOG.md": "changes.md"}  # the page only includes it
        build_data["force_include"] |= {str(path): f"posse/docs/{name}" for path, name in pages.items() if name}
