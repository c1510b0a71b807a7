"""The whole idea on real data; the rule: what an application would write, and nothing it could not."""

from dualsql.demo.database import demo_database
from dualsql.demo.schema import Base, FieldOfStudy, Institution, Program

__all__ = ["Base", "FieldOfStudy", "Institution", "Program", "demo_database"]
