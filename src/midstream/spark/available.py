"""Is Spark available: PySpark and a Java for it, looked for without importing either."""

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from midstream.model.errors import MidstreamError

OLDEST_JAVA = 17


def require_pyspark() -> None:
    """Refuse in one sentence when PySpark is missing."""
    if find_spec("pyspark") is None:
        raise MidstreamError("running on Spark needs PySpark, which is not installed: pip install 'midstream[spark]'")


def require_spark() -> None:
    """Refuse in one sentence when PySpark or Java is missing; let PySpark find the Java that was found."""
    require_pyspark()
    home = find_java()
    if home is None:
        raise MidstreamError(
            f"running on Spark needs Java {OLDEST_JAVA} or newer, and none was found: "
            "install one (Debian: openjdk-17-jre-headless) or set JAVA_HOME"
        )
    os.environ["JAVA_HOME"] = str(home)


def find_java() -> Path | None:
    """Return the home of a Java that is new enough: JAVA_HOME, the one on the PATH, or one that Debian installs."""
    named = os.environ.get("JAVA_HOME")
    candidates = [Path(named) / "bin/java"] if named else []
    if (found := shutil.which("java")) is not None:
        candidates.append(Path(found))
    candidates += sorted(Path("/usr/lib/jvm").glob("*/bin/java"))
    return next((home for java in candidates if (home := _home_of(java)) is not None), None)


def _home_of(java: Path) -> Path | None:
    """Ask a Java for its version and home."""
    try:
        answer = subprocess.run(
            [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"java\.specification\.version = (\d+)", answer.stderr)
    home = re.search(r"java\.home = (.*)", answer.stderr)
    return Path(home[1].strip()) if home and version and int(version[1]) >= OLDEST_JAVA else None
