"""Leave the modules that import PySpark out of doctest collection where the `spark` extra is not installed."""

from importlib.util import find_spec

ON_SPARK = ["src/midstream/spark/*", "src/midstream/app/demo.py", "src/midstream/app/launch.py"]
collect_ignore_glob = [] if find_spec("pyspark") else ON_SPARK
