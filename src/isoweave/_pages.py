"""Pages from templates that lie beside the code that fills them."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def render(template: str, **values: Any) -> str:
    """Fill a template of the package, named by its path in it ("experiments/templates/experiments.html").

    In HTML every value is escaped unless the template says ``safe``; a name the template needs and was not
    given is an error.
    """
    try:
        import jinja2
    except ImportError as error:
        raise ImportError("HTML pages need jinja2: pip install 'isoweave[report]'.") from error
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(disabled_extensions=["md"], default=True),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(values)
