#!/usr/bin/env python3
"""Writes random PromQL for the oracle's data, in the oracle's own format.

    random_promql.py --seed 1 --count 2000 --version 2.42 --out DIR/random.txt
    check.py --queries DIR ... (see the oracle's README)

Expressions are typed and up to --depth deep: every operator, every aggregation, every function of
the version, subqueries, offset, @, matching and grouping modifiers. Operands often come from one
family of metrics, so that vectors match; many queries fail on purpose, in the servers' ways.
The same seed and version write the same queries.
"""
import argparse
import random

# family: metrics that share labels, and labels worth grouping and matching by.
FAMILIES = [
    (["node_load1", "node_load5", "node_load15", "node_memory_MemFree_bytes", "node_memory_Cached_bytes",
      "node_memory_MemTotal_bytes", "node_uname_info", "node_zone_info", "instance:node_cpu:ratio",
      'up{job="node"}', 'scrape_duration_seconds{job="node"}'], ["instance", "job", "zone", "release"], 0),
    (["http_requests_in_flight", "go_goroutines", "process_open_fds", "process_max_fds", "app_build_info",
      'up{job="api"}', "process_resident_memory_bytes"], ["instance", "job", "zone", "version"], 0),
    (["edge_int", "edge_line", "edge_negative", "edge_flag", "edge_left", "edge_right", "edge_maybe",
      "edge_many", "edge_owner_info", "edge_tie", "edge_stale", "edge_gappy", "edge_short", "edge_single"],
     ["id", "parity", "side", "owner", "sub", "maybe", "grp"], 0),
    (["edge_value", "edge_text", 'edge_value{case=~"pinf|zero|nan|max"}'], ["case", "grp", "text"], 0),
    (["tenant_queue_depth", "only_on_a", "cluster_capacity_units", "disjoint_temperature_celsius"],
     ["shard", "tenant", "job", "sensor"], 0),
    (["kube_deployment_spec_replicas", "kube_pod_owner", "kube_namespace_labels"],
     ["namespace", "deployment", "pod", "owner_kind"], 0),
    (["http_requests_total", 'http_requests_total{code!="200"}', "http_request_duration_seconds_count",
      "http_request_duration_seconds_sum", "process_cpu_seconds_total"],
     ["instance", "handler", "method", "code", "zone"], 1),
    (["node_cpu_seconds_total", 'node_cpu_seconds_total{mode=~"user|idle"}', "node_context_switches_total",
      "node_network_receive_bytes_total"], ["instance", "cpu", "mode", "device"], 1),
    (["edge_reset_total", "edge_reset_on_a_total", "edge_stale_total", "edge_gappy_total", "edge_short_total",
      "edge_text_total"], ["id", "gap", "text"], 1),
]
NOTHING = ["no_such_metric", 'node_load1{instance="none"}']
ARITHMETIC = ["+", "-", "*", "/", "%", "^", "atan2"]
COMPARISON = ["==", "!=", "<", "<=", ">", ">="]
SETS = ["and", "or", "unless"]
AGGREGATIONS = ["sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "topk", "bottomk",
                "quantile", "count_values"]
MATH = ["abs", "ceil", "floor", "exp", "ln", "log2", "log10", "sqrt", "sgn", "deg", "rad", "sin", "cos", "tan",
        "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "round"]
CLOCK = ["minute", "hour", "day_of_week", "day_of_month", "day_of_year", "days_in_month", "month", "year",
         "timestamp"]
OVER_TIME = ["avg_over_time", "min_over_time", "max_over_time", "sum_over_time", "count_over_time",
             "last_over_time", "present_over_time", "stddev_over_time", "stdvar_over_time", "changes", "resets",
             "deriv", "delta", "idelta", "absent_over_time"]
COUNTER = ["rate", "increase", "irate", "resets"]
RANGES = ["1m", "2m", "5m", "10m", "45s", "7m13s"]


class Maker:
    def __init__(self, seed, version):
        self.r = random.Random(f"{seed}/{version}")
        self.is_3 = version >= (3, 0)

    def pick(self, items):
        return self.r.choice(items)

    def chance(self, share):
        return self.r.random() < share

    # === leaves ===

    def modifier(self):
        if self.chance(0.12):
            return " offset " + self.pick(["1m", "90s", "-2m", "5m"])
        if self.chance(0.06):
            return " @ " + self.pick(["start()", "end()", "$mid"])
        return ""

    def selector(self, family):
        if self.chance(0.04):
            return self.pick(NOTHING)
        return self.pick(family[0])

    def number(self):
        return self.pick(["0", "1", "2", "0.5", "-1", "100", "1e6", "3.25", "-0.1", "Inf", "NaN", "12"])

    # === types ===

    def scalar(self, depth):
        kind = self.r.random()
        if depth <= 0 or kind < 0.55:
            return self.number()
        if kind < 0.65:
            return "time()"
        if kind < 0.7:
            return "pi()"
        if kind < 0.88:
            return f"scalar({self.vector(depth - 1)})"
        op = self.pick(ARITHMETIC)
        return f"({self.scalar(depth - 1)} {op} {self.scalar(depth - 1)})"

    def range(self, depth, family=None, counters=False):
        family = family or self.pick([f for f in FAMILIES if not counters or f[2]])
        if depth <= 0 or self.chance(0.72):
            return f"{self.selector(family)}[{self.pick(RANGES)}]{self.modifier()}"
        inner = self.vector(depth - 1, family)
        step = self.pick(["30s", "1m", "15s", "", "37s"])
        return f"({inner})[{self.pick(['5m', '10m', '3m'])}:{step}]{self.modifier()}"

    def labels(self, family, most=2):
        return ", ".join(self.r.sample(family[1], self.r.randint(0, min(most, len(family[1])))))

    def vector(self, depth, family=None):
        family = family or self.pick(FAMILIES)
        if depth <= 0:
            return self.selector(family) + self.modifier()
        makers = [
            (5, self.leaf), (7, self.aggregation), (6, self.binary), (5, self.over_time), (4, self.rate),
            (4, self.math), (2, self.clock), (2, self.clamp), (2, self.absent), (2, self.relabel), (1, self.sort),
            (1, self.histogram), (1, self.constant), (1, self.negate), (1, self.parametrised),
        ]
        make = self.r.choices([m for _, m in makers], [w for w, _ in makers])[0]
        return make(depth, family)

    def leaf(self, _depth, family):
        return self.selector(family) + self.modifier()

    def aggregation(self, depth, family):
        names = AGGREGATIONS + (["limitk", "limit_ratio"] if self.is_3 else [])
        name = self.pick(names)
        parameter = {
            "topk": lambda: self.pick(["1", "3", "2", "0", self.scalar(1)]),
            "bottomk": lambda: self.pick(["1", "2", "5", self.scalar(1)]),
            "quantile": lambda: self.pick(["0.5", "0.9", "0", "1", "0.37", "-1", "2"]),
            "count_values": lambda: self.pick(['"v"', '"value"', '"id"']),
            "limitk": lambda: self.pick(["1", "2", "4"]),
            "limit_ratio": lambda: self.pick(["0.5", "-0.3", "0.1"]),
        }.get(name)
        grouping = self.pick(["", "", f" by ({self.labels(family)})", f" without ({self.labels(family)})"])
        head = f"{parameter()}, " if parameter else ""
        return f"{name}{grouping} ({head}{self.vector(depth - 1, family)})"

    def binary(self, depth, family):
        kind = self.r.random()
        if kind < 0.4:
            op = self.pick(ARITHMETIC + COMPARISON)
            if op in COMPARISON and self.chance(0.4):
                op += " bool"
            sides = [self.vector(depth - 1, family), self.scalar(1)]
            self.r.shuffle(sides)
            return f"({sides[0]} {op} {sides[1]})"
        matching = self.pick(["", "", f" on ({self.labels(family)})", f" ignoring ({self.labels(family, 3)})"])
        left, right = self.vector(depth - 1, family), self.vector(depth - 1, family)
        if kind < 0.6:
            return f"({left} {self.pick(SETS)}{matching} {right})"
        op = self.pick(ARITHMETIC + COMPARISON)
        if op in COMPARISON and self.chance(0.4):
            op += " bool"
        if matching and self.chance(0.5):
            include = self.pick(["", f"({self.labels(family, 1)})"])
            matching += self.pick([" group_left", " group_right"]) + include
        return f"({left} {op}{matching} {right})"

    def over_time(self, depth, family):
        return f"{self.pick(OVER_TIME)}({self.range(depth - 1, family)})"

    def rate(self, depth, _family):
        return f"{self.pick(COUNTER)}({self.range(depth - 1, counters=True)})"

    def parametrised(self, depth, family):
        inner = self.range(depth - 1, family)
        smoothing = "double_exponential_smoothing" if self.is_3 else "holt_winters"
        return self.pick([
            f"quantile_over_time({self.pick(['0.5', '0.9', '0', '2', self.scalar(1)])}, {inner})",
            f"predict_linear({inner}, {self.pick(['60', '3600', self.scalar(1)])})",
            f"{smoothing}({inner}, 0.5, 0.3)" if not self.is_3 else f"predict_linear({inner}, 10)",
        ])

    def math(self, depth, family):
        name = self.pick(MATH)
        second = ", " + self.pick(["5", "0.1", "100"]) if name == "round" and self.chance(0.6) else ""
        return f"{name}({self.vector(depth - 1, family)}{second})"

    def clock(self, depth, family):
        return f"{self.pick(CLOCK)}({self.vector(depth - 1, family)})"

    def clamp(self, depth, family):
        inner = self.vector(depth - 1, family)
        return self.pick([
            f"clamp({inner}, {self.scalar(1)}, {self.scalar(1)})",
            f"clamp_min({inner}, {self.scalar(1)})",
            f"clamp_max({inner}, {self.scalar(1)})",
        ])

    def absent(self, depth, family):
        return f"absent({self.vector(depth - 1, family)})"

    def relabel(self, depth, family):
        inner = self.vector(depth - 1, family)
        source = self.pick(family[1])
        target = self.pick([source, "made", "id"])
        return self.pick([
            f'label_replace({inner}, "{target}", "$1x", "{source}", "(.*)")',
            f'label_replace({inner}, "{target}", "${{1}}", "{source}", "(.).*")',
            f'label_join({inner}, "{target}", "-", "{source}", "{self.pick(family[1])}")',
        ])

    def sort(self, depth, family):
        return f"{self.pick(['sort', 'sort_desc'])}({self.vector(depth - 1, family)})"

    def histogram(self, depth, _family):
        buckets = self.pick([
            "rate(http_request_duration_seconds_bucket[5m])",
            "sum by (le) (rate(http_request_duration_seconds_bucket[5m]))",
            "sum by (le, zone) (http_request_duration_seconds_bucket)",
            "edge_odd_bucket", "increase(http_request_duration_seconds_bucket[10m])",
        ])
        return f"histogram_quantile({self.pick(['0.5', '0.9', '0.99', '0', '1', '2', self.scalar(1)])}, {buckets})"

    def constant(self, depth, _family):
        return f"vector({self.scalar(depth - 1)})"

    def negate(self, depth, family):
        return f"-({self.vector(depth - 1, family)})"

    # === queries ===

    def query(self, depth):
        kind = self.r.random()
        if kind < 0.92:
            return self.vector(depth)
        if kind < 0.97:
            return self.scalar(depth)
        return self.range(depth)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--depth", type=int, default=5)
    parser.add_argument("--version", default="2.42", help="of the servers, such as 2.42 or 3.5")
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    version = tuple(int(part) for part in arguments.version.split(".")[:2])
    maker = Maker(arguments.seed, version)
    seen = set()
    tags = "instant range exp" if version >= (3, 0) else "instant range"
    with open(arguments.out, "w", encoding="utf-8") as out:
        while len(seen) < arguments.count:
            query = maker.query(maker.r.randint(1, arguments.depth))
            is_range = query.endswith("]") or query.split("]")[-1].startswith((" offset", " @"))
            if query in seen or len(query) > 600:
                continue
            seen.add(query)
            only = tags.replace(" range", "") if is_range and "[" in query else tags
            out.write(f"{query} # {only}\n")


if __name__ == "__main__":
    main()
