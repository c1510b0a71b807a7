"""A page for the person: results and listings as HTML, for browsers.

The pages are complete without JavaScript. With it, `static/result.js` puts a grid in the place of the table and reads
rows over the same REST requests as any other client. See README.md in this folder, and docs/pages.md.
"""
