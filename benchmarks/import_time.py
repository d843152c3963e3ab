"""How much `import sureprox` adds to `import torch`: medians over fresh interpreters, alternating, in one run."""

import statistics
import subprocess
import sys
from collections.abc import Sequence

from _record import write_record

ROUNDS = 7
LIMIT = 0.3  # seconds
TIMER = "import time; start = time.perf_counter(); {imports}; print(time.perf_counter() - start)"


def seconds(imports: str) -> float:
    command = [sys.executable, "-c", TIMER.format(imports=imports)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def rounded(values: Sequence[float]) -> list[float]:
    return [round(value, 4) for value in values]


def main() -> None:
    alone, both = "import torch", "import torch; import sureprox"
    for imports in (alone, both):  # warm-up: byte code and disk cache
        seconds(imports)
    pairs = [(seconds(alone), seconds(both)) for _ in range(ROUNDS)]
    torch_times, both_times = zip(*pairs, strict=True)
    torch_median, both_median = statistics.median(torch_times), statistics.median(both_times)
    added = both_median - torch_median
    path = write_record(
        "import_time",
        {
            "torch_seconds": rounded(torch_times),
            "torch_and_sureprox_seconds": rounded(both_times),
            "torch_median_seconds": round(torch_median, 4),
            "torch_and_sureprox_median_seconds": round(both_median, 4),
            "added_seconds": round(added, 4),
            "limit_seconds": LIMIT,
        },
    )
    print(f"import torch                  {torch_median:.3f} s (median of {ROUNDS})")
    print(f"import torch; import sureprox {both_median:.3f} s (median of {ROUNDS})")
    print(f"added by sureprox             {added:.3f} s (limit {LIMIT} s)")
    print(f"record: {path.relative_to(path.parents[2])}")
    if added >= LIMIT:
        sys.exit("import sureprox is too slow")


if __name__ == "__main__":
    main()
