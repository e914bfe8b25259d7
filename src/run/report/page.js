"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  // A run keeps its colour and its dash in all charts; on paper the dash and the label tell it.
  const dashes = [[], [8, 4], [2, 3], [12, 4, 2, 4], [16, 5], [4, 2, 1, 2]];
  const borders = ["solid", "dashed", "dotted", "dashed", "solid", "dotted"];
  const height = 230, paperWidth = 300;
  const drawn = new Map();
  let onPaper = false;

  const style = name => getComputedStyle(root).getPropertyValue(name).trim();
  const color = run => style(`--run${run % 6}`);
  const number = value => value == null ? "–" : String(+value.toPrecision(5));
  const option = id => document.getElementById(id);

  // An exponential moving average without the pull of its first value (Kingma and Ba 2015, arXiv:1412.6980).
  function smoothed(values, weight) {
    if (!(weight > 0)) return values;
    let sum = 0, total = 0;
    return values.map(value => {
      if (value == null) return value;
      sum = weight * sum + (1 - weight) * value;
      total = weight * total + (1 - weight);
      return sum / total;
    });
  }

  // Marks restarts by a vertical line and an R, and names each run at the end of its curve.
  function annotate(chart) {
    return plot => {
      const { ctx, bbox } = plot, ratio = devicePixelRatio;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      ctx.lineWidth = ratio;
      ctx.textAlign = "center";
      ctx.textBaseline = "top";
      for (const { run } of chart.curves) {
        ctx.strokeStyle = ctx.fillStyle = color(run);
        ctx.setLineDash([3 * ratio, 3 * ratio]);
        for (const step of data.restarts[run]) {
          const x = plot.valToPos(step, "x", true);
          ctx.beginPath();
          ctx.moveTo(x, bbox.top + 14 * ratio);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
          ctx.fillText("R", x, bbox.top + ratio);
        }
      }
      if (chart.curves.length > 1) label(plot, chart, ratio);
      ctx.restore();
    };
  }

  function label(plot, chart, ratio) {
    const { ctx, bbox } = plot;
    const ends = chart.curves.map(({ run }, index) => {
      let last = plot.data[0].length - 1;
      while (last >= 0 && (plot.data[index + 1][last] == null || plot.data[0][last] > plot.scales.x.max)) last--;
      if (last < 0) return null;
      const x = plot.valToPos(plot.data[0][last], "x", true), y = plot.valToPos(plot.data[index + 1][last], "y", true);
      return { run, x: Math.min(x, bbox.left + bbox.width) - 4 * ratio, y: y - 3 * ratio };
    }).filter(end => end).sort((one, other) => one.y - other.y);
    ctx.textAlign = "right";
    ctx.textBaseline = "bottom";
    const step = 13 * ratio;
    let lowest = bbox.top + step;
    for (const end of ends) {
      end.y = Math.max(end.y, lowest);
      lowest = end.y + step;
    }
    let highest = bbox.top + bbox.height - 2 * ratio;
    for (const end of ends.reverse()) {
      end.y = Math.min(end.y, highest);
      highest = end.y - step;
      const text = data.labels[end.run];
      ctx.lineWidth = 4 * ratio;
      ctx.setLineDash([]);
      ctx.lineJoin = "round";
      ctx.strokeStyle = style("--panel");
      ctx.strokeText(text, end.x, end.y);
      ctx.fillStyle = color(end.run);
      ctx.fillText(text, end.x, end.y);
    }
  }

  // Shows the same steps in every chart.
  let following = false;
  function follow(plot, key) {
    if (key !== "x" || following) return;
    following = true;
    const { min, max } = plot.scales.x;
    const all = min === plot.data[0][0] && max === plot.data[0][plot.data[0].length - 1];
    for (const { plot: other } of drawn.values()) {
      if (other === plot) continue;
      const steps = other.data[0];
      other.setScale("x", all ? { min: steps[0], max: steps[steps.length - 1] } : { min, max });
    }
    following = false;
  }

  function draw(figure) {
    const chart = data.charts[figure.dataset.chart];
    const old = drawn.get(figure);
    if (old) {
      old.plot.destroy();
      old.box.remove();
    }
    figure.querySelectorAll("p").forEach(note => note.remove());
    const weight = +option("smoothing").value;
    const tables = chart.curves.map(({ x, y }) => [x, y]);
    const [steps, ...values] = uPlot.join(tables);
    const positive = chart.curves.some(({ y }) => y.length) && chart.curves.every(({ y }) => y.every(value => value > 0));
    const grid = { stroke: style("--line"), width: 1 };
    const axis = { stroke: style("--faint"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const few = chart.curves.every(({ x }) => x.length <= 60);
    const box = document.createElement("div");
    figure.append(box);
    const plot = new uPlot({
      width: onPaper ? paperWidth : Math.max(220, figure.clientWidth - 22),
      height,
      scales: { x: { time: false }, y: { distr: option("log_scale").checked && positive ? 3 : 1 } },
      cursor: { sync: { key: "step" }, drag: { x: true, y: false } },
      legend: { markers: { width: 2, dash: (_, index) => borders[chart.curves[index - 1].run % 6], fill: () => "transparent" } },
      series: [
        { label: "step", value: (_, step) => step == null ? "–" : step.toLocaleString("en") },
        ...chart.curves.map(({ run }) => ({
          label: data.labels[run], stroke: color(run), dash: dashes[run % 6], width: 1.6, spanGaps: true,
          points: { show: few, size: 4 }, value: (_, value) => number(value),
        })),
      ],
      axes: [
        { ...axis, size: 34, values: (_, steps) => steps.map(step => Number.isInteger(step) ? step.toLocaleString("en") : "") },
        { ...axis, size: 72, values: (_, values) => values.map(value => value == null ? "" : Math.abs(value) >= 1e5 || (value && Math.abs(value) < 1e-3) ? value.toExponential(1) : number(value)) },
      ],
      hooks: { draw: [annotate(chart)], setScale: [follow] },
    }, [steps, ...values.map(of => smoothed(of, weight))], box);
    drawn.set(figure, { plot, box });
    for (const { run, not_finite } of chart.curves) {
      if (not_finite == null) continue;
      const note = document.createElement("p");
      note.textContent = `${data.labels[run]}: not a finite number at step ${not_finite.toLocaleString("en")}`;
      figure.append(note);
    }
  }

  const isShown = figure => !figure.closest("details:not([open])");
  const drawAll = () => document.querySelectorAll("figure").forEach(figure => { if (isShown(figure)) draw(figure); });

  for (const details of document.querySelectorAll("details.more")) {
    details.addEventListener("toggle", () => {
      if (details.open) details.querySelectorAll("figure").forEach(draw);
    });
  }
  for (const id of ["log_scale", "smoothing"]) option(id)?.addEventListener("input", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);

  // A click on a title sorts the runs by that column, numbers by their value; another one turns the order round.
  for (const table of document.querySelectorAll(".sortable")) {
    table.querySelectorAll("thead button").forEach(button => button.addEventListener("click", () => {
      const head = button.parentElement;
      const up = head.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("[aria-sort]").forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const cell = row => row.cells[head.cellIndex];
      const value = row => cell(row).dataset.number === undefined ? NaN : +cell(row).dataset.number;
      const compare = (one, other) => {
        const numbers = value(one) - value(other);
        return Number.isNaN(numbers) ? cell(one).textContent.localeCompare(cell(other).textContent, "en", { numeric: true }) : numbers;
      };
      const rows = [...table.tBodies[0].rows].sort((one, other) => up ? compare(one, other) : compare(other, one));
      table.tBodies[0].append(...rows);
    }));
  }

  function paper(on) {
    onPaper = on;
    root.classList.toggle("paper", on);
    drawAll();
  }
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));
  let width = innerWidth;
  addEventListener("resize", () => {
    if (onPaper || innerWidth === width) return;
    width = innerWidth;
    drawAll();
  });

  // A page of a run at work reads itself again; what was opened, chosen and scrolled to stays.
  const kept = "gimlet-report";
  function remember() {
    const open = [...document.querySelectorAll("details[open]")].map(({ id }) => id);
    const state = { open, log_scale: option("log_scale")?.checked, smoothing: option("smoothing")?.value, y: scrollY };
    try { sessionStorage.setItem(kept, JSON.stringify(state)); } catch { /* Some browsers keep nothing for files. */ }
  }
  function recall() {
    let state = null;
    try { state = JSON.parse(sessionStorage.getItem(kept)); } catch { /* As above. */ }
    if (!state) return;
    document.querySelectorAll("details").forEach(details => { details.open = state.open.includes(details.id); });
    if (option("log_scale")) option("log_scale").checked = state.log_scale;
    if (option("smoothing")) option("smoothing").value = state.smoothing;
    scrollTo(0, state.y);
  }
  if (data.reload_secs) {
    recall();
    setInterval(() => {
      if (document.hidden || String(getSelection())) return;
      remember();
      location.reload();
    }, data.reload_secs * 1000);
  }
  drawAll();
})();
