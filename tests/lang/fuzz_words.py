"""What the fuzz puts into texts: numbers, strings, words, signs, names and windows, ordinary and odd."""

NUMBERS = (
    "0", "1", "-1", "2", "7", "0.5", ".5", "5.", "1e3", "1e400", "1e-400", "9223372036854775807", "0x1F", "1_000",
    "9223372036854775808", "-9223372036854775808", "99999999999999999999999999999999999999", "2147483648",
    "123456789012345678901234567890123456789012", "0.00000000000000000000000000000000000001",
)  # fmt: skip
STRINGS = (
    "''", "'a'", "'%'", "'_%\\\\'", "'1'", "'1970-01-01'", "'0000-00-00'", "'10000-01-01'", "'2020-02-30'", "'nan'",
    "'inf'", "'1e999'", "'\\x00'", "'é'", "'12:00'", "'2020-01-01 00:00:00+25:00'", "'-'", "'1 second'", "'10'",
    "'true'", "'(['", "'year'", "'nonsense'", "E'\\n'", "x'00'", "b'1'", "'''", "'day'", "'\U0001f600'",
)  # fmt: skip
_WORDS = """
SELECT FROM WHERE AND OR NOT IN BETWEEN LIKE ILIKE IS NULL DISTINCT AS ON USING JOIN INNER CROSS LEFT FULL
NATURAL LATERAL GROUP BY HAVING ORDER LIMIT UNION ALL EXCEPT INTERSECT EXISTS CASE WHEN THEN ELSE END CAST TRY_CAST
INTERVAL DATE TIMESTAMP EXTRACT EPOCH YEAR MONTH TRUE FALSE WITH VALUES RANGE ROWS SLIDE PARTITION START HOP EMIT DELTA
COMPLETE SECONDS SECOND MINUTES DAYS HOURS MILLISECONDS MICROSECONDS UNBOUNDED OVER FILTER QUALIFY ANY SOME ARRAY
STRUCT MAP ESCAPE COLLATE AT TIME ZONE WINDOW PRECEDING FETCH OFFSET TABLESAMPLE PIVOT RECURSIVE ASOF SEMI ANTI
POSITIONAL BIGINT INTEGER DOUBLE DECIMAL VARCHAR BOOLEAN BLOB HUGEINT UUID TINYINT REAL
count sum min max avg stddev median first last arg_max abs coalesce nullif greatest least length lower upper substring
trim replace strpos position concat round floor ceil sqrt ln exp power pow mod date_trunc date_part date_diff
to_seconds epoch_us make_date strftime regexp_matches starts_with contains if iff hash list unnest row_number lead now
current_date random
"""
WORDS = tuple(_WORDS.split())
_SIGNS = "( ) [ ] { } , . ; : :: * / + - % = == <> != < > <= >= || | & ^ ~ ? ! @ # $ -> ->> ** // => := \\ ` \" '"
SIGNS = tuple(_SIGNS.split())
NAMES = (
    "ts", "k", "v", "w", "x", "price", "qty", "s", "name", "d", "day", "t", "z", "open", "amount", "big", "tags", "raw",
    "id", "f", "Unit", "u", "a", "b", "c", "r", "orders", "prices", "stock", "bid", "_time", "_hop", "a.k", "b.k",
    '"k"', '"a b"', '""', "a.*", "x.y.z",
)  # fmt: skip
WINDOWS = (
    "[RANGE 10 SECONDS]", "[ROWS 5]", "[ROWS 5 PARTITION BY k]", "[RANGE 4 SECONDS SLIDE 2 SECONDS]",
    "[ROWS 6 SLIDE 2]", "[START WHEN k > 5 END WHEN k < 2]", "[]", "[UNBOUNDED]", "[RANGE UNBOUNDED]",
    "[RANGE 0 SECONDS]", "[ROWS 1e9]", "[RANGE 1000000 DAYS]", "[RANGE INTERVAL '1 day']", "[NOW]", "HOP BY 1 SECOND",
    "HOP BY 2 SECONDS EMIT DELTA", "HOP BY 1 MICROSECOND",
)  # fmt: skip
ODD = (
    "\x00", "\ufeff", "\u200b", "\x1b", "\ud7ff", "\U0001f600", "\n", "\t", "--", "/*", "*/", "$$", "\\", "\r", "é",
    "İ", "ß",
)  # fmt: skip
PLAN_WORDS = (
    "(", ")", "a", "b", "c", ":", "D", "I", "DIDO", "IIIO", "join", "project", "select", "group", "except", "anti",
    "modes=delta", "modes=complete", "as-written", "optimal", "working=tuple", "=", "order=", "x", "1", "", "fixed",
)  # fmt: skip
