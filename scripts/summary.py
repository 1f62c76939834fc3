"""Prints the last lines of ``scripts/test``: what failed, what was left out and why, and one total of all parts."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree


def main() -> int:
    """Print the summary of the results in the directory ``argv[1]``; return the exit status."""
    folder, seconds = Path(sys.argv[1]), sys.argv[2]
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for result in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(result).iter("testcase"):
            outcome = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
            counts["passed" if outcome is None else outcome.tag] += 1
            if outcome is not None and outcome.tag == "skipped":
                reasons[outcome.get("message", "")] += 1
            elif outcome is not None:
                message = outcome.get("message", "").partition("\n")[0][:160]
                print(f"FAILED {result.stem}: {case.get('classname')}::{case.get('name')} - {message}")
    broken = [file.stem for file in sorted(folder.glob("*.failed"))]
    for name in broken:
        print(f"FAILED {name}: see above")
    failed = counts["failure"] + counts["error"] + len(broken)
    line = f"{counts['passed']} passed, {failed} failed, {counts['skipped']} skipped in {seconds}.00s"
    why = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    print(f"===== {line}{f' (skipped: {why})' if why else ''} =====")
    return int(failed > 0 or not counts["passed"])


if __name__ == "__main__":
    sys.exit(main())
