#!/usr/bin/env python3
"""Functions of numbers, to the last bit.

  elementary.py --union URL --proxy URL [--seed N]
      compares what a server and ringway make of about two million numbers
  elementary.py --union URL --golden > tests/golden/elementary.txt
      writes what a server makes of a few, for the tests of the crate `merge`

ringway asks a server for what needs no series, so `unless no_such_metric` makes it compute itself.
Numbers are pseudo-random in the time of a range query, by operations that are exact everywhere, so
that both sides compute the same ones. Exit status: 1 where an answer differs.
"""
import argparse
import json
import random
import sys
import urllib.error
import urllib.parse
import urllib.request

STEPS = 10_000
UNIT = "((time() * {} + 12345) % 1000003 / 1000003)"

# Function names, and their arguments: x is from 0 to 1, e and f are exponents.
FUNCTIONS = {
    "sin cos tan": [
        "({x} - 0.5) * 20", "({x} - 0.5) * 1e9", "({x} + 1) * 1e{e}", "({x} - 0.5) * 2e-7",
        "({x} * 1e9 - {x} * 1e9 % 1) * 0.7853981633974483",
        "({x} * 1e15 - {x} * 1e15 % 1) * 3.141592653589793",
    ],
    "asin acos atanh": ["({x} - 0.5) * 2", "({x} - 0.5) * 2.2", "({x} - 0.5) * 1e-{f}"],
    "atan asinh": ["({x} - 0.5) * 6", "({x} - 0.5) * 1e-{f}", "({x} - 0.5) * 1e{e}", "({x} - 0.5) * 1.4"],
    "acosh": ["1 + {x} * 3", "1 + {x} * 1e-{f}", "{x} * 1e{e}"],
    "exp sinh cosh tanh": [
        "({x} - 0.5) * 1500", "({x} - 0.5) * 4", "({x} - 0.5) * 1e-{f}", "-{x} * 40 - 708", "({x} - 0.5) * 80",
        "({x} - 0.5) * 1.4",
    ],
    "ln log2 log10 sqrt": ["{x} * 1e{e}", "{x} * 1e-{e}", "1 + ({x} - 0.5) * 1e-{f}", "{x} * 3"],
    "deg rad": ["({x} - 0.5) * 1e{f}"],
}
LEFT = [
    "{x} * 10", "({x} - 0.5) * 10", "{x} * 1e300", "({x} + 1) * 1e-300", "1 + {x} * 1e-6", "{x} * 100 - {x} * 100 % 1",
    "{x} * 1e-310",
]
RIGHT = [
    "{x} * 10", "({x} - 0.5) * 100", "{x} * 20 - {x} * 20 % 1 - 10", "({x} - 0.5) * 1e-3", "({x} - 0.5) * 1e10",
    "{x} * 1e9 - {x} * 1e9 % 1", "0.5", "1.37", "2", "-3",
]
OPERATORS = ["^", "atan2", "%"]

# Of the golden file: where a function takes another way, and what is special.
SPECIAL = """0 -0.0 1 -1 0.5 0.625 0.66 0.7 2 2.414213562373095 3 21 21.5 -0.3 1e-17 1e-9 0.001 -0.41 0.41421356 1e17
    536870912 536870911.99 6167950454 14885392687 9007199254740993 1e22 1.7976931348623157e308 5e-324 1e-310
    709.7827128933841 709.79 -708.5 -744.4400719213812 -745.13321910194 -745.2 Inf -Inf NaN""".split()
PAIRS = [
    ("2", "0.5"), ("2", "-0.5"), ("-8", "0.3333"), ("-8", "3"), ("10", "15"), ("1.1", "1e9"), ("0.9", "1e4"),
    ("3.7", "2.37"), ("3.7", "-2.37"), ("1e-310", "0.37"), ("1e-310", "-1.5"), ("-1", "1e300"), ("-2", "1e300"),
    ("1.0000000001", "9007199254740993"), ("0.1", "320"), ("0.1", "323.7"), ("NaN", "0"), ("1", "NaN"), ("0", "-3"),
    ("-0.0", "-3"), ("-Inf", "3"), ("-Inf", "0.5"), ("0.3", "0.7"), ("-0.3", "0.7"), ("-0.3", "-0.7"), ("1e-300", "-1e300"),
    ("-1e-300", "-1e300"), ("5.5", "2"), ("-5.5", "2"),
]


def ask(base, query, steps):
    """The values of a range query of no label, by time."""
    form = urllib.parse.urlencode({"query": query, "start": 0, "end": steps - 1, "step": 1}).encode()
    with urllib.request.urlopen(f"{base}/api/v1/query_range", form, timeout=120) as answer:
        result = json.load(answer)["data"]["result"]
    return dict(map(tuple, result[0]["values"])) if result else {}


def random_queries():
    def filled(text):
        unit = UNIT.format(random.randrange(1, 1000003))
        return text.format(x=unit, e=random.choice([2, 9, 17, 40, 120, 300]), f=random.randrange(1, 12))

    for names, arguments in FUNCTIONS.items():
        for name in names.split():
            for argument in arguments * 2:
                yield f"{name}(vector({filled(argument)}) unless no_such_metric)"
    for left in LEFT:
        for right in RIGHT:
            for operator in OPERATORS:
                yield f"(vector({filled(left)}) unless no_such_metric) {operator} vector({filled(right)})"


def compare(union, proxy):
    differing = total = 0
    for query in random_queries():
        expected, found = ask(union, query, STEPS), ask(proxy, query, STEPS)
        times = [time for time in expected.keys() | found.keys() if expected.get(time) != found.get(time)]
        total += len(expected)
        differing += len(times)
        if times:
            time = min(times)
            print(f"{len(times)} differ, at {time}: {expected.get(time)}, not {found.get(time)}: {query}", flush=True)
    print(f"{differing} of {total} differ")
    return 1 if differing else 0


def golden(union):
    print("# Function or operator, operands, and what a Prometheus server makes of them.")
    print("# Written by tests/promql/elementary.py.")
    for names in FUNCTIONS:
        for name in names.split():
            for operand in SPECIAL:
                print(name, operand, *ask(union, f"{name}(vector({operand}))", 1).values())
    for operator in OPERATORS:
        for left, right in PAIRS:
            print(operator, left, right, *ask(union, f"vector({left}) {operator} vector({right})", 1).values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--union", required=True, metavar="URL", help="a Prometheus server on x86-64")
    parser.add_argument("--proxy", metavar="URL", help="ringway, with a time series merge of such servers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--golden", action="store_true", help="write the golden file")
    args = parser.parse_args()
    random.seed(args.seed)
    if args.golden:
        golden(args.union)
        return 0
    if not args.proxy:
        parser.error("--proxy is missing")
    return compare(args.union, args.proxy)


if __name__ == "__main__":
    sys.exit(main())
