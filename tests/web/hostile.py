"""Cells that attack a page: markup, script addresses, changes of direction, what cannot be seen, what is too long."""

from __future__ import annotations

_MARKUP = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "</td></tr></table><h1>x",
    "<style>*{display:none}</style>",
    "<iframe src=javascript:alert(1)>",
    "<body onload=alert(1)>",
    "<!--",
    "-->",
    "]]>",
    "<a href='javascript:alert(1)'>x</a>",
    "<math><mi//xlink:href='data:x,alert(1)'>",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<form action=//evil.example><button>x",
    "</script>",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<template><script>1</script></template>",
    "&lt;script&gt;",
    "&amp;",
    "&#x3c;script&#x3e;",
    '"><script>alert(1)</script>',
    "' onmouseover='alert(1)",
)
_TEMPLATES = (
    "{{7*7}}",
    "${7*7}",
    "#{7*7}",
    "<%= 7*7 %>",
    "{% raw %}",
    "`alert(1)`",
    "__proto__",
    "constructor",
)
_ADDRESSES = (
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "//evil.example",
    "file:///etc/passwd",
)
_FORMULAS = (
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    '=HYPERLINK("//evil.example")',
    "\t=1",
    "=cmd|' /C calc'!A0",
    "%0A=1",
)
_INVISIBLE = (
    "\u202eevil\u202c",
    "\u2066left\u2069",
    "a\u200bb",
    "\ufeffmark",
    "soft\u00adhyphen",
    "bell\u0007",
    "esc\u001b[31m",
    "line\nbreak",
    "tab\tstop",
    "\r\n",
    "\u0085",
    "\u2028",
    "\u2029",
    "\u200f",
    "\u2060",
)
_WRITTEN = (
    "مرحبا بالعالم",
    "שלום",
    "日本語",
    "हिन्दी",
    "😀",
    "👩‍👩‍👧‍👦",
    "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "e\u0301" * 50,
    "Z\u0351\u0353\u0356A\u036c\u035dL\u0316GO",
    "\U000e0041",
)
_EMPTY = (None, "", "NULL", "null", "undefined", " ", "\u00a0", "None", "NaN", "empty")
_LONG = ("x" * 1_000_000, "word " * 20_000, "W" * 501, "漢" * 10_000)

CELLS: tuple[str | None, ...] = (
    *_MARKUP,
    *_TEMPLATES,
    *_ADDRESSES,
    *_FORMULAS,
    *_INVISIBLE,
    *_WRITTEN,
    *_EMPTY,
    *_LONG,
)
