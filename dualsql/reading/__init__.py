"""Reading what was stored: pages, streams, answers to questions; the rule: every reading goes through one view.

reader      loads no resource and checks no right: it is given one, and whoever reads
view        a stored statement as one principal sees it; caching keeps what is derived of it
turning     one page, by offset or by cursor; pages says it, results keeps its rows for a while
streams     all rows: what the headers say; flow runs it, resuming goes on with a broken one
inquiries   answers to questions; profiles, sampling: the columns of a result, and some of its rows
"""
