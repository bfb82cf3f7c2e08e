# Clean: a batch job. Reads tables one after the other, groups the rows, writes one line per table.
import csv
import io
import random

from common import until

rng = random.Random(0)


def table(rows):
    out = io.StringIO()
    write = csv.writer(out)
    for _ in range(rows):
        write.writerow([rng.randrange(100), rng.random(), rng.choice(["north", "south", "east"])])
    return out.getvalue()


total = 0.0
for i in until(per_second=8):
    rows = list(csv.DictReader(io.StringIO(table(rng.choice([2000, 5000, 20000]))), ["id", "amount", "region"]))
    groups = {}
    for row in rows:
        groups.setdefault((row["id"], row["region"]), []).append(float(row["amount"]))
    total += sum(sum(values) / len(values) for values in groups.values())
print(f"total {total:.3f}")
