"""The engine: what runs in a bucket and where buckets meet. It knows neither Spark nor files."""
