"""Leave the Spark modules out of doctest collection where the `spark` extra is not installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("pyspark") else ["src/midstream/runtime/spark*"]
