"""How Sphinx builds the documentation: ``make docs``."""

import sys
from pathlib import Path

from posse import __version__

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "posse"
author = "The posse authors"
copyright = author  # noqa: A001 - Sphinx's name for it
version = release = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "command_line"]
exclude_patterns = ["_build", "extensions"]
highlight_language = "none"  # blocks that name no language are formulas
html_theme = "pydata_sphinx_theme"
html_title = f"posse {version}"
html_static_path = ["_static"]
html_css_files = ["posse.css"]
html_sidebars = {"index": [], "tutorial": []}  # neither has pages below it
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_prev_next": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "force"  # a page whose code does not run is not built
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures would be longer than what they describe; parameters say it in words
autodoc_default_options = {
    "members": True,
    # What scikit-learn adds to its estimators is documented there.
    "exclude-members": "set_fit_request, set_score_request, set_predict_request, set_partial_fit_request, "
    "set_predict_proba_request, set_predict_interval_request, "
    "get_metadata_routing",
}
napoleon_google_docstring = False
napoleon_use_param = napoleon_use_rtype = False  # types are words here ("of shape (n_rows,)"), not names to link
napoleon_custom_sections = [("Attributes", "params_style")]
