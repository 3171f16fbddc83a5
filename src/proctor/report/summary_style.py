"""The style of summary.html: part of the file, and the only thing in it that a browser obeys."""

from __future__ import annotations

import base64
import hashlib

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 56rem; padding: 1rem; }
h1, p { overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin-bottom: 0; }
h2 { font-size: 1.15rem; margin: 2rem 0 0.5rem; }
.headline { font-size: 1.25rem; margin: 0.25rem 0; }
.wide { overflow-x: auto; }
.wide:focus-visible, a:focus-visible { outline: 3px solid #0b57d0; outline-offset: 2px; }
table { border-collapse: collapse; }
caption { caption-side: bottom; padding: 0.25rem 0.5rem; text-align: left; font-size: 0.875rem; }
th, td { border-bottom: 1px solid #c8ccd0; padding: 0.25rem 0.5rem; text-align: right; font-weight: normal;
  font-variant-numeric: tabular-nums; vertical-align: top; }
thead th { font-weight: bold; }
th:first-child { text-align: left; }
a { color: #0b57d0; }
.plot { width: 100%; max-width: 40rem; height: auto; }
.plot .grid { stroke: #c8ccd0; }
.plot .interval { stroke: #0b57d0; stroke-width: 2; }
.plot .point { fill: #0b57d0; }
@media (prefers-color-scheme: dark) {
  th, td { border-color: #4a4f55; }
  a { color: #8ab4f8; }
  .wide:focus-visible, a:focus-visible { outline-color: #8ab4f8; }
  .plot .grid { stroke: #4a4f55; }
  .plot .interval { stroke: #8ab4f8; }
  .plot .point { fill: #8ab4f8; }
}
@media print { body { max-width: none; } }
"""

POLICY = "; ".join(
    (
        "default-src 'none'",
        f"style-src 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
"""No script, no picture, no connection, no other style than this one, whatever texts of others stand in the file."""
