"""Tests of one stored result: pages, jobs, samples, counts."""
