"""Command line of the benchmarks: ``python -m benchmarks NAME`` in a checkout."""

import argparse
import sys
from pathlib import Path

from benchmarks._runner import NAMES, Settings, load_benchmark, run_benchmark
from kaucus.evaluation.clustering import print_table


def build_parser() -> argparse.ArgumentParser:
    """Describe the arguments."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("name", metavar="NAME", choices=NAMES, help=f"one of: {', '.join(NAMES)}")
    add("--quick", action="store_true", help="few rows: a look in a minute")
    add("--sizes", type=int, nargs="+", metavar="N", help="numbers of training rows")
    add("--large", action="store_true", help="also the large fits, which take minutes")
    add("--parts", nargs="+", metavar="PART", help="which parts of a benchmark")
    add("--device", metavar="D", help="where gpu, pictures and large fits compute")
    add("--workers", type=int, nargs="+", metavar="W", help="workers of cluster")
    add("--data-home", metavar="DIR", help="folder with the data (else KAUCUS_DATA)")
    add("--jobs", type=int, default=1, help="steps at a time, for errors without times")
    add("--tables", nargs="+", metavar="T", help="of tables: these alone")
    add("--contenders", nargs="+", metavar="C", help="of tables: these alone")
    add("--splits", type=int, metavar="N", help="of tables: so many splits of each")
    add("--rows", nargs="+", metavar="N", help="of tables: training rows, or all")
    add("--resume", action="store_true", help="go on with the run in the folder")
    add("--output", metavar="DIR", help="default: kaucus-results/bench-NAME")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one benchmark, print its tables, name its files."""
    args = vars(build_parser().parse_args(argv))
    name, output = args.pop("name"), args.pop("output")
    folder = Path(output or Path("kaucus-results") / f"bench-{name}")
    benchmark = load_benchmark(name)
    try:
        content, files = run_benchmark(benchmark, folder, Settings(**args))
    except (FileNotFoundError, ModuleNotFoundError) as error:  # data, or a package
        print(f"benchmarks: {' '.join(str(error).split())}", file=sys.stderr)
        return 3
    for table in benchmark.tables(content):
        print_table(table.headers, table.rows, title=table.title)
        print()
    print(content["about"])
    for file in files:
        print(f"wrote {file}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
