"""The demo: an application over the College Scorecard, written with the public API only."""

from dualsql.demo.database import Base, FieldOfStudy, Institution, Program, demo_database

__all__ = ["Base", "FieldOfStudy", "Institution", "Program", "demo_database"]
