"""The picture of docs/explain/performance.md, from the committed results.

python benchmarks/plot.py
"""

from __future__ import annotations

import json
from pathlib import Path

from matplotlib.figure import Figure

HERE = Path(__file__).parent
PICTURE = HERE.parent / "docs" / "images" / "performance.png"


def main() -> None:
    gpu, cpu = (json.loads((HERE / "results" / f"{name}.json").read_text()) for name in ("h200", "cpu2"))
    figure = Figure(figsize=(10, 3.4), layout="constrained")
    runs, growth, bits = figure.subplots(1, 3)

    paths = ("naive", "plain", "fast")
    for place, benchmark in enumerate(("8puzzle", "iceslider")):
        seconds = [gpu[f"{benchmark}_{path}_seconds_per_run"] for path in paths]
        seconds.append(gpu[f"{benchmark}_dwmr_seconds_per_run"])
        bars = runs.bar([x + 0.4 * place for x in range(4)], seconds, width=0.38, label=benchmark)
        runs.bar_label(bars, fmt="%.3g", fontsize=7)
    runs.set_xticks([x + 0.2 for x in range(4)], ["naive", "plain", "fast,\n1 run", "fast,\n10 runs*"])
    runs.set(yscale="log", title="H200: seconds a run", ylim=(1, 600))
    runs.legend(fontsize=7, frameon=False)

    sizes = (1, 2, 5, 10, 20)
    for benchmark in ("8puzzle", "iceslider"):
        growth.plot(sizes, [gpu[f"{benchmark}_update_ms_s{s}"] / s for s in sizes], "o-", label=benchmark)
    growth.set(xscale="log", title="H200: ms an update and run", xlabel="runs at once", ylim=(0, None))
    growth.set_xticks(sizes, [str(size) for size in sizes])

    for name, results in (("H200", gpu), ("2 cores", cpu)):
        for form, style in (("dense", ":"), ("plain", "--"), ("fast", "-")):
            known = [k for k in (64, 128, 192, 512, 1024) if f"coskewness_{form}_k{k}_ms" in results]
            times = [results[f"coskewness_{form}_k{k}_ms"] for k in known]
            bits.plot(known, times, style, marker="o", markersize=3, label=f"{name} {form}")
    bits.set(xscale="log", yscale="log", title="Coskewness and gradient, ms", xlabel="bits K (N = 256)")
    bits.set_xticks((64, 192, 512, 1024), ["64", "192", "512", "1024"])
    bits.minorticks_off()
    bits.legend(fontsize=6, frameon=False)

    for axes in (runs, growth, bits):
        axes.spines[["top", "right"]].set_visible(False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(PICTURE, dpi=130)


if __name__ == "__main__":
    main()
