"""One self-contained interactive page about a map; jinja2 is the extra ``report``."""

from isoweave.report._inline import embedding_html as embedding_html
from isoweave.report._page import check_report as check_report, write_report as write_report
