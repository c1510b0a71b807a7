"""Write docs/settings.md from the settings themselves: python scripts/make_settings_page.py

The tests fail when the page is not what this would write.
"""

from __future__ import annotations

from pathlib import Path

from dualsql import Pages, SignedLinks
from dualsql.feature import Feature
from dualsql.features import default_features
from dualsql.settings import SettingDescription, describe_settings

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
    return HEAD + TABLE + "".join(map(_row, describe_settings())) + "".join(sections)


def _section(feature: Feature) -> str:
    assert feature.settings_group is not None
    described = describe_settings(feature.settings_group)
    head = FEATURE.format(
        name=type(feature).__name__, example=f"{described[0].name}={_quoted(described[0].default)}"
    )
    return head + TABLE + "".join(map(_row, described))


def _quoted(value: str) -> str:
    """As the formatter writes it in the page."""
    return value.replace("'", '"')


def _row(setting: SettingDescription) -> str:
    kind = setting.type.replace("|", "\\|")
    return f"| `{setting.name}` | `{kind}` | `{setting.default}` | {setting.meaning} |\n"


if __name__ == "__main__":
    main()
