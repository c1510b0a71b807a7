"""Apache Spark on a real cluster: `make test-spark`. Without pyspark in .spark these tests are not collected."""
