"""Making resources of Selects; the rule: what runs is the stored document, thawed.

options     what a new response is asked to be
creator     freeze, thaw, narrow, sample, count, sign, store
rehearsing  every form of a statement, compiled
pending     queries that may outlast their caller
refining    a resource of a question about another one
drawing     a resource whose rows are a chart
responding  a resource and its sample as what a tool returns
"""
