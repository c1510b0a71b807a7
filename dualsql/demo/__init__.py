"""The whole idea on real data. What an application would write, and nothing it could not."""

from dualsql.demo.database import Base, FieldOfStudy, Institution, Program, demo_database

__all__ = ["Base", "FieldOfStudy", "Institution", "Program", "demo_database"]
