"""Write docs/settings.md from the settings themselves: python scripts/make_settings_page.py

The tests fail when the page is not what this would write.
"""

from __future__ import annotations

from dataclasses import Field
from pathlib import Path
from typing import Any

from dualsql import Pages, Settings, SignedLinks
from dualsql.feature import Feature
from dualsql.feature_list import default_features
from dualsql.settings import as_code, default_of, settings_in, type_name

PAGE = Path(__file__).parents[1] / "docs" / "settings.md"

HEAD = """# Settings

## The server

These are the fields of `dualsql.Settings`. A value that could only be a mistake is refused: `ConfigurationError`.

```python
dual = DualResponseServer(
    engine, base_url=url, tables=Base, settings=Settings(query_timeout=timedelta(seconds=5))
)
```

`scripts/make_settings_page.py` writes this page from `dualsql/settings.py` and the settings of each feature.
"""

FEATURE = """
## {name}

```python
features = default_features({name}({example}))
```
"""

TABLE = """
| Setting | Type | Default | Meaning |
|---|---|---|---|
"""


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """The whole page."""
    sections = [
        _section(feature) for feature in default_features(Pages(), SignedLinks()) if feature.settings_group
    ]
    return HEAD + TABLE + "".join(map(_row, settings_in(Settings))) + "".join(sections)


def _section(feature: Feature) -> str:
    assert feature.settings_group is not None
    settings = settings_in(feature.settings_group)
    # As the formatter writes it in the page.
    example = f"{settings[0].name}={as_code(default_of(settings[0]))}".replace("'", '"')
    head = FEATURE.format(name=type(feature).__name__, example=example)
    return head + TABLE + "".join(map(_row, settings))


def _row(setting: Field[Any]) -> str:
    kind, default = type_name(setting).replace("|", "\\|"), as_code(default_of(setting))
    return f"| `{setting.name}` | `{kind}` | `{default}` | {setting.metadata['meaning']} |\n"


if __name__ == "__main__":
    main()
