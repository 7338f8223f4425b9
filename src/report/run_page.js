// The page of one or several runs: run_page.cpp embeds this script, dygraphs and the runs' numbers (see there for the
// names). Nothing is loaded. window.hearthReport.charts has the charts by their keys.
"use strict";
(() => {
let data = JSON.parse(document.getElementById("data").textContent);
const colours = {
  light: ["#2a6fb0", "#c4572a", "#2f8f4e", "#8a4fb3", "#a9852a", "#b03060", "#2a9a9a", "#6b6b6b"],
  dark: ["#6aa9e9", "#e58a5f", "#6cc28a", "#b98ae0", "#d0b050", "#e07098", "#5cc4c4", "#a8a8a8"],
};
const darkDesktop = window.matchMedia("(prefers-color-scheme: dark)");
const colourOf = (number) => colours[darkDesktop.matches ? "dark" : "light"][number % colours.light.length];
const shown = data.runs.map(() => true);
const charts = {};
const chosen = {};  // the choices of select(), by id, and of "log", by chart: they outlive a redraw of a live page
let root = null;    // of all that is drawn
let xAxis = "step";
let smoothedSteps = 0;

// --- elements ----------------------------------------------------------------

function element(name, text, parent, attributes) {
  const made = document.createElement(name);
  if (text !== null && text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (parent) parent.appendChild(made);
  return made;
}

function section(title, id) {
  const made = element("section", null, root, {id});
  element("h2", title, made);
  return made;
}

// `rows`: arrays of texts, or of {text, mark}. A marked cell stands out.
function table(parent, headings, rows) {
  const made = element("table", null, element("div", null, parent, {class: "frame"}));
  const head = element("tr", null, element("thead", null, made));
  for (const heading of headings) element("th", heading, head);
  const body = element("tbody", null, made);
  for (const row of rows) {
    const line = element("tr", null, body);
    for (const cell of row) element("td", cell?.text ?? cell, line, cell?.mark ? {class: "mark"} : {});
  }
  return made;
}

const isMissing = (value) => value === null || value === undefined || Number.isNaN(value);

function number(value) {
  if (isMissing(value)) return "";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return String(Number(value.toPrecision(4)).toExponential());
  return String(Number(value.toPrecision(6)));
}

// Three digits of a large number, such as "1.68 k".
function count(value) {
  if (isMissing(value)) return "";
  const units = ["", " k", " M", " B", " T"];
  let unit = 0;
  for (; Math.abs(value) >= 999.5 && unit + 1 < units.length; ++unit) value /= 1000;
  return Number(value.toPrecision(3)) + units[unit];
}

// The labels of an axis have one form: learning rates are powers of ten, and large numbers short.
function axisLabel(key) {
  if (key === "lr") return (value) => value === 0 ? "0" : String(Number(value.toPrecision(3)).toExponential());
  return (value) => Math.abs(value) >= 1e4 ? count(value) : number(value);
}

// Marks of the x axis: none within a step or a token. dygraphs leaves out a mark at the very end.
function xTicks(low, high, pixels, options, graph, values) {
  const ticks = Dygraph.numericTicks(low, high, pixels, options, graph, values)
      .filter((tick) => xAxis === "hours" || Number.isInteger(tick.v));
  for (const tick of ticks) {
    if (tick.v === high) tick.v -= 1e-9 * (high - low);
  }
  return ticks;
}

// Four digits, with zeros at the end, so that the numbers of a column compare.
function digits(value) {
  if (isMissing(value)) return "";
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e4) ? number(value) : value.toPrecision(4);
}

function duration(seconds) {
  if (!seconds) return "";
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${(seconds / 3600).toFixed(1)} h` : `${(seconds / 86400).toFixed(1)} days`;
}

const date = (time) => time > 0 ? new Date(time * 1000).toISOString().replace("T", " ").slice(0, 19) : "";

// --- the numbers -------------------------------------------------------------

// Bin i has the steps from i * width + 1 on.
const binOf = (step) => Math.max(0, Math.floor((step - 1) / data.width));

function xOf(run, step) {
  if (xAxis === "step") return step;
  if (step <= 0) return 0;
  const values = xAxis === "tokens" ? run.tokens : run.hours;
  return values.length === 0 ? null : values[Math.min(binOf(step), values.length - 1)];
}

// The mean of the last `count` values, at each value. Values that are missing do not count.
function smoothed(values, count) {
  if (count <= 1) return values;
  const result = new Array(values.length).fill(null);
  let sum = 0;
  let present = 0;
  for (let i = 0; i < values.length; ++i) {
    if (values[i] !== null) { sum += values[i]; ++present; }
    if (i >= count && values[i - count] !== null) { sum -= values[i - count]; --present; }
    if (values[i] !== null) result[i] = sum / present;
  }
  return result;
}

// What the plan says of a chart, the same for every step; null: nothing.
function plannedLevel(chart, run) {
  if (chart.key === "tokens_per_second") return run.plan.tokens_per_second ?? null;
  if (chart.key === "memory" && run.plan.memory_GiB) return run.plan.memory_GiB + run.plan.before_GiB;
  return null;
}

// The lines of a chart: {label, run, dashed, points: [[x, low, middle, high], ...]}.
function linesOf(chart) {
  const lines = [];
  const flat = (x, y) => [x, y, y, y];
  data.runs.forEach((run, index) => {
    const add = (name, dashed, points) =>
        lines.push({label: name ? `${run.name}: ${name}` : run.name, run: index, dashed, points});
    if (chart.key === "validation" || chart.key === "scores") {
      for (const set of run[chart.key])
        add(set.name, chart.key === "validation" && set.name !== "",
            set.steps.map((step, i) => flat(xOf(run, step), set.values[i])));
      return;
    }
    const bins = run.bins[chart.key];
    if (!bins) return;
    const middle = smoothed(bins.mean, Math.round(smoothedSteps / data.width));
    const points = middle.map((value, i) => {
      const x = xOf(run, Math.min((i + bins.first + 1) * data.width, run.last_step));
      return bins.low ? [x, bins.low[i], value, bins.high[i]] : flat(x, value);
    }).filter((point) => point[2] !== null);
    add("", false, points);
    if (chart.key === "lr" && run.planned_lr && xAxis === "step")
      add("planned", true, run.planned_lr.steps.map((step, i) => flat(step, run.planned_lr.values[i])));
    const level = plannedLevel(chart, run);
    if (level !== null && points.length > 0)
      add("planned", true, [points[0], points[points.length - 1]].map(([x]) => flat(x, level)));
  });
  return lines;
}

// dygraphs wants one row for each x. The first and the last have no values where a line begins later or ends earlier: so
// all charts have the same range, from the start of the training on.
function rowsOf(lines) {
  const ends = data.runs.map((run) => xOf(run, run.last_step) ?? 0);
  const least = xAxis === "step" ? 2 : 0;  // so that the point of a single step does not lie on the edge
  const empty = (x) => [x, ...Array(lines.length).fill(null)];
  const rows = new Map([0, Math.max(...ends, least)].map((x) => [x, empty(x)]));
  lines.forEach((line, column) => {
    for (const [x, low, middle, high] of line.points) {
      if (x === null) continue;
      if (!rows.has(x)) rows.set(x, empty(x));
      rows.get(x)[column + 1] = [low, middle, high];
    }
  });
  return [...rows.values()].sort((a, b) => a[0] - b[0]);
}

// --- charts ------------------------------------------------------------------

const eventColour = (event, index) => event.name === "rewind" ? "#d02020" : colourOf(index);

// Restarts and rewinds are lines, skipped steps are marks at the lower edge.
function drawMarks(context, area, graph) {
  context.save();
  context.beginPath();
  context.rect(area.x, area.y, area.w, area.h);
  context.clip();
  data.runs.forEach((run, index) => {
    if (!shown[index]) return;
    context.globalAlpha = 0.6;
    for (const event of run.events) {
      const x = graph.toDomXCoord(xOf(run, event.step));
      context.strokeStyle = eventColour(event, index);
      context.setLineDash(event.name === "rewind" ? [] : [4, 4]);
      context.beginPath();
      context.moveTo(x, area.y);
      context.lineTo(x, area.y + area.h);
      context.stroke();
    }
    context.fillStyle = "#d08000";
    context.globalAlpha = 1;
    for (const skip of run.skipped) {
      const x = graph.toDomXCoord(xOf(run, skip.step));
      context.fillRect(x - 1.5, area.y + area.h - 9, 3, 9);
    }
  });
  context.restore();
  drawLabels(context, area, graph);
}

// The labels of restarts have a strip above the curves, and a row there for each run with restarts, up to a few.
const kLabelRow = 13;
const kLabelRows = 4;

function labelledRuns() {
  const indices = data.runs.map((run, index) => index).filter((i) => shown[i] && data.runs[i].events.length > 0);
  return indices.slice(0, kLabelRows);
}

// "restart", "3 restarts", "2 restarts, 1 rewind".
function labelText(events) {
  const rewinds = events.filter((event) => event.name === "rewind").length;
  const counted = (count, noun) => count === 1 && events.length === 1 ? noun : `${count} ${noun}${count === 1 ? "" : "s"}`;
  const parts = [[events.length - rewinds, "restart"], [rewinds, "rewind"]].filter(([count]) => count > 0);
  return parts.map(([count, noun]) => counted(count, noun)).join(", ");
}

// Labels are elements, because dygraphs draws nothing outside of the curves' area.
function drawLabels(context, area, graph) {
  const parent = graph.graphDiv.parentNode;
  for (const old of parent.querySelectorAll(".event")) old.remove();
  context.save();
  context.font = "11px system-ui, sans-serif";  // as .event has
  labelledRuns().forEach((index, row) => {
    const run = data.runs[index];
    const marks = run.events.map((event) => ({x: graph.toDomXCoord(xOf(run, event.step)), events: [event]}))
        .filter((mark) => mark.x >= area.x - 0.5 && mark.x <= area.x + area.w + 0.5);
    for (const label of labelsOf(marks, (text) => Math.ceil(context.measureText(text).width), area.x + area.w)) {
      const other = label.events.find((event) => event.name !== "rewind");
      const colour = eventColour(other ?? label.events[0], index);
      element("span", label.text, parent,
              {class: "event", style: `left: ${label.left}px; top: ${kLabelRow * row}px; color: ${colour}`});
    }
  });
  context.restore();
}

// {left, right, text, events} of a row's labels, each beginning at its mark and none over another: neighbours that have no
// room share one. A label at the right edge ends there.
function labelsOf(marks, widthOf, edge) {
  const gap = 6;
  const placed = [];
  const place = (x, events) => {
    const text = labelText(events);
    const left = Math.min(x + 3, edge - widthOf(text));
    return {x, left, right: left + widthOf(text), text, events};
  };
  for (const mark of marks.sort((a, b) => a.x - b.x)) {
    placed.push(place(mark.x, mark.events));
    while (placed.length > 1 && placed[placed.length - 1].left < placed[placed.length - 2].right + gap) {
      const last = placed.pop();
      const before = placed.pop();
      placed.push(place(before.x, [...before.events, ...last.events]));
    }
  }
  return placed;
}

// The band from the least to the greatest values, as one polygon with a corner for each pixel at most. dygraphs draws a
// polygon for each pair of points: a page of five long runs then took four times as long to open.
function drawBand(plot) {
  const top = [];
  const bottom = [];
  for (const point of plot.points) {
    const high = plot.plotArea.y + plot.plotArea.h * point.y_top;
    const low = plot.plotArea.y + plot.plotArea.h * point.y_bottom;
    if (!Number.isFinite(high) || !Number.isFinite(low)) continue;
    const x = Math.round(point.canvasx);
    const last = top.length - 1;
    if (last >= 0 && top[last][0] === x) {
      top[last][1] = Math.min(top[last][1], high);
      bottom[last][1] = Math.max(bottom[last][1], low);
    } else {
      top.push([x, high]);
      bottom.push([x, low]);
    }
  }
  if (top.length < 2 || top.every(([, y], i) => y === bottom[i][1])) return;
  const context = plot.drawingContext;
  context.save();
  context.globalAlpha = 0.18;
  context.fillStyle = plot.color;
  context.beginPath();
  for (const [x, y] of [...top, ...bottom.reverse()]) context.lineTo(x, y);
  context.fill();
  context.restore();
}

let together = false;  // one chart zooms the others
function zoomAll(graph) {
  if (together) return;
  together = true;
  for (const other of Object.values(charts)) {
    if (other === graph) continue;
    if (graph.isZoomed("x")) other.updateOptions({dateWindow: graph.xAxisRange()});
    else other.resetZoom();
  }
  together = false;
}

function optionsOf(lines) {
  const series = Object.fromEntries(lines.map((line) => [line.label, line.dashed ? {strokePattern: [6, 3]} : {}]));
  // dygraphs keeps the strip above the curves free for a title.
  const rows = labelledRuns().length;
  return {
    title: rows > 0 ? " " : null, titleHeight: kLabelRow * rows,
    file: rowsOf(lines), labels: [xAxis, ...lines.map((line) => line.label)], series,
    colors: lines.map((line) => colourOf(line.run)), visibility: lines.map((line) => shown[line.run]),
  };
}

function addChart(chart, parent) {
  const lines = linesOf(chart);
  if (lines.every((line) => line.points.length === 0)) return;
  const frame = element("figure", null, parent, {id: `chart-${chart.key}`});
  const caption = element("figcaption", chart.unit ? `${chart.title}, ${chart.unit}` : chart.title, frame);
  const label = element("label", " log", caption);
  const log = element("input", null, null, {type: "checkbox"});
  label.prepend(log);
  const legend = element("div", null, frame, {class: "legend"});
  const canvas = element("div", null, frame, {class: "canvas"});
  const made = optionsOf(lines);
  const graph = new Dygraph(canvas, made.file.length ? made.file : [[0, ...lines.map(() => null)]], {
    ...made, file: undefined, customBars: true, connectSeparatedPoints: true, labelsDiv: legend, legend: "always",
    drawPoints: chart.key === "validation" || chart.key === "scores", pointSize: 2, strokeWidth: 1.4,
    plotter: [drawBand, Dygraph.Plotters.linePlotter], gridLineColor: "#8886",
    axisLineColor: "#888", axes: {y: {valueFormatter: number, axisLabelFormatter: axisLabel(chart.key), axisLabelWidth: 70},
                                  x: {valueFormatter: (x) => `${xAxis} ${number(x)}`, axisLabelFormatter: number, ticker: xTicks}},
    underlayCallback: drawMarks, zoomCallback: () => zoomAll(graph), animatedZooms: false,
    highlightCircleSize: 3, logscale: chosen[`log-${chart.key}`] === true,
  });
  log.checked = chosen[`log-${chart.key}`] === true;
  log.addEventListener("change", () => {
    chosen[`log-${chart.key}`] = log.checked;
    graph.updateOptions({logscale: log.checked});
  });
  charts[chart.key] = graph;
}

// Smoothing, and hidden runs, leave the zoom as it is; `zoom`: another one.
function update(zoom) {
  for (const chart of data.charts) charts[chart.key]?.updateOptions({...optionsOf(linesOf(chart)), ...zoom});
}

function select(parent, text, id, choices, change) {
  const label = element("label", text + " ", parent);
  const made = element("select", null, label, {id});
  for (const [value, name] of choices) element("option", name, made, {value});
  if (choices.some(([value]) => String(value) === chosen[id])) made.value = chosen[id];
  made.addEventListener("change", () => { chosen[id] = made.value; change(made.value); });
  return made.value;
}

function addCurves() {
  const made = section("Curves", "curves");
  const bar = element("div", null, made, {class: "bar"});
  select(bar, "over", "x-axis", [["step", "steps"], ["tokens", "tokens"], ["hours", "hours of training"]],
         (value) => { xAxis = value; update({dateWindow: null, valueRange: null}); });
  const last = Math.max(...data.runs.map((run) => run.last_step), 1);
  const windows = [5, 10, 50, 100, 500, 1000, 5000, 10000].filter((steps) => steps >= 2 * data.width && steps < last);
  smoothedSteps = Number(select(
      bar, "mean of the last", "smoothing", [["0", "no smoothing"], ...windows.map((n) => [n, `${n} steps`])],
      (value) => { smoothedSteps = Number(value); update(); }));
  const reset = element("button", "whole range", bar, {id: "reset"});
  reset.addEventListener("click", () => { for (const graph of Object.values(charts)) graph.resetZoom(); });
  data.runs.forEach((run, index) => {
    const label = element("label", " " + run.name, bar, {style: `color: ${colourOf(index)}`});
    const box = element("input", null, null, {type: "checkbox", "data-run": index});
    box.checked = shown[index];
    label.prepend(box);
    box.addEventListener("change", () => { shown[index] = box.checked; update(); });
  });
  element("p", "Drag over a chart to zoom all of them, double-click to go back. " +
      (data.width > 1 ? `Each point is the mean of ${data.width} steps, and the band has their least and greatest value. `
                      : "Each point is a step. ") +
      "Dashed lines are restarts, red lines rewinds, and marks at the lower edge skipped updates.", made, {class: "hint"});
  const grid = element("div", null, made, {class: "grid"});
  for (const chart of data.charts) addChart(chart, grid);
  for (const graph of Object.values(charts)) graph.resize();  // a scroll bar may have come
}

// --- tables ------------------------------------------------------------------

const kLongTable = 200;

function addOverview() {
  const rows = data.runs.map((run) => [
    run.name, run.state, number(run.last_step) + (run.planned_steps ? ` of ${number(run.planned_steps)}` : ""),
    digits(run.loss), digits(run.validation_loss), count(run.total_tokens), duration(run.seconds),
    count(run.tokens_per_second), run.mfu === null ? "" : (100 * run.mfu).toFixed(1) + " %",
    run.restarts, run.rewinds, run.skipped.length, run.repeated_steps]);
  tableSection("Runs", "runs", ["run", "state", "steps", "loss", "best validation loss", "tokens", "time in steps",
                                "tokens/s", "mfu", "restarts", "rewinds", "skipped", "repeated"], rows);
}

function addNotes() {
  const notes = data.runs.flatMap((run) => run.notes.map((note) => `${run.name}: ${note}`));
  if (notes.length === 0) return;
  const list = element("ul", null, element("section", null, root, {id: "notes"}));
  for (const note of notes) element("li", note, list);
}

// A section with a table, unless that is empty; of a long list with `most` rows, the last ones.
function tableSection(title, id, headings, rows, most = rows.length) {
  if (rows.length === 0) return null;
  const made = section(title, id);
  if (rows.length > most) element("p", `The last ${most} of ${rows.length}:`, made, {class: "hint"});
  table(made, headings, rows.slice(-most));
  return made;
}

function eventText(event) {
  if (event.name === "rewind") return "back to this step";
  if (event.from_step <= event.step) return "went on after this step";
  const first = event.step + 1;
  return "went on after this step; " +
      (first === event.from_step ? `step ${first} was done again` : `steps ${first} to ${event.from_step} were done again`);
}

function addEvents() {
  const why = (event) => event.name === "rewind" ? `step ${event.from_step}: ${event.reason}` : event.reason;
  const rows = data.runs.flatMap((run) => [
    ...run.events.map((event) => [run.name, event.step, eventText(event), why(event), event.time]),
    ...run.skipped.map((skip) => [run.name, skip.step, "update skipped", skip.why, skip.time])]);
  if (rows.every((row) => row[4])) rows.sort((a, b) => a[4] - b[4]);
  for (const row of rows) row[4] = date(row[4]);
  tableSection("Restarts, rewinds and skipped updates", "events", ["run", "step", "what", "why", "time (UTC)"], rows,
               kLongTable);
}

function addJobs() {
  const rows = data.runs.flatMap((run) =>
      run.jobs.map((event) => [run.name, date(event.time), event.job, event.what, event.reason]));
  tableSection("Jobs", "jobs", ["run", "time (UTC)", "job", "what", "why"], rows, kLongTable);
}

// Rows of several runs by a name: [name, [value of each run]].
function byName(field) {
  const rows = new Map();
  data.runs.forEach((run, index) => {
    for (const [name, value] of run[field] || []) {
      if (!rows.has(name)) rows.set(name, data.runs.map(() => ""));
      rows.get(name)[index] = value;
    }
  });
  return [...rows.entries()];
}

const differ = (values) => values.some((value) => value !== values[0]);
// Of one run nothing differs.
const marked = (values) => values.map((text) => ({text, mark: differ(values)}));
const runNames = () => data.runs.map((run) => run.name);

function addConfiguration() {
  const rows = byName("configuration");
  if (rows.length === 0) return;
  const made = section("Configuration", "configuration");
  const defaults = new Map(data.defaults);
  let body = null;
  const draw = (which) => {
    if (body) body.parentNode.remove();
    const chosen = rows.filter(([name, values]) => which === "all" ||
        (which === "differ" ? differ(values) : values.some((value) => value !== "" && value !== defaults.get(name))));
    body = table(made, ["key", ...runNames(), "default"],
                 chosen.map(([name, values]) => [name, ...marked(values), defaults.get(name) || ""]));
  };
  const bar = element("div", null, made, {class: "bar"});
  const choices = [["given", "keys with another value than their default"], ["all", "all keys"]];
  if (data.runs.length > 1) choices.unshift(["differ", "keys that differ between the runs"]);
  draw(select(bar, "show", "config-rows", choices, draw));
}

function addOrigin() {
  const rows = byName("origin").map(([name, values]) => [name, ...marked(values)]);
  tableSection("Origin", "origin", ["", ...runNames()], rows);
}

function addPlan() {
  const rows = [];
  const add = (run, what, planned, measured, unit) => {
    if (!planned || !measured) return;
    const share = planned > 0 ? `${(100 * measured / planned).toFixed(1)} %` : "";
    rows.push([run.name, what, `${count(planned)} ${unit}`, `${count(measured)} ${unit}`, share]);
  };
  for (const run of data.runs) {
    add(run, "throughput", run.plan.tokens_per_second, run.tokens_per_second, "tokens/s");
    if (run.plan.peak_GiB)
      add(run, "memory of a rank's tensors", run.plan.memory_GiB, run.plan.peak_GiB - run.plan.before_GiB, "GiB");
  }
  const made = tableSection("Plan and measurement", "plan", ["run", "what", "planned", "measured", "of the plan"], rows);
  const hint = "Measured memory is the peak of rank 0 without what its process had before the training's tensors.";
  if (made !== null) element("p", hint, made, {class: "hint"});
}

function addMixture() {
  const share = (value) => value === null ? "" : `${(100 * value).toFixed(3)} %`;
  const rows = data.runs.flatMap((run) => run.mixture.map((source) =>
      [run.name, source.source, share(source.planned), share(source.realised),
       source.realised === null ? "" : number(source.sequences)]));
  tableSection("Mixture of sources", "mixture",
               ["run", "source", "planned share", "realised share", "sequences so far"], rows);
}

// Counts of spikes: a row a neuron, a column a time bin, darker with more spikes. A line marks the end of `before`.
function addRaster(parent, title, before, bins) {
  const all = [...before, ...bins];
  const neurons = all[0].length;
  const spikes = bins.reduce((sum, bin) => sum + [...bin].reduce((part, digit) => part + parseInt(digit, 36), 0), 0);
  const figure = element("figure", null, parent);
  const caption = `${title}, ${(spikes / bins.length / neurons).toPrecision(3)} spikes a bin and neuron`;
  element("figcaption", caption, figure);
  const wide = Math.max(1, Math.min(8, Math.floor(480 / all.length)));  // pixels
  const high = Math.max(1, Math.min(8, Math.floor(240 / neurons)));
  const canvas = element("canvas", null, figure,
                         {width: wide * all.length, height: high * neurons, role: "img", "aria-label": caption});
  const pen = canvas.getContext("2d");
  pen.fillStyle = getComputedStyle(document.body).color;
  all.forEach((bin, x) => [...bin].forEach((digit, y) => {
    if (digit === "0") return;
    pen.globalAlpha = Math.min(1, 0.3 + 0.25 * parseInt(digit, 36));
    pen.fillRect(x * wide, y * high, wide, high);
  }));
  pen.globalAlpha = 1;
  pen.fillStyle = colourOf(1);
  if (before.length > 0) pen.fillRect(before.length * wide - 1, 0, 2, canvas.height);
}

// Loads of experts: a row a layer, a column a bin of steps; the more of a layer's tokens go to one expert, the darker.
function addExperts() {
  const runs = data.runs.filter((run) => run.experts.length > 0);
  if (runs.length === 0) return;
  const made = section("Loads of experts", "experts");
  element("p", "A row is a layer, a column is a part of the run: the darker, the more tokens its most loaded expert " +
          "gets. White is the mean, the darkest is the run's largest load.", made, {class: "hint"});
  for (const run of runs) {
    const most = Math.max(...run.experts.flatMap((layer) => layer.mean));
    const columns = Math.max(...run.experts.map((layer) => layer.first + layer.mean.length));
    const figure = element("figure", null, made);
    const layers = `layers ${run.experts[0].layer} to ${run.experts.at(-1).layer}`;
    const caption = `${run.name}, ${layers}: at most ${most.toPrecision(3)} times the mean`;
    element("figcaption", caption, figure);
    const wide = Math.max(1, Math.min(12, Math.floor(720 / columns)));  // pixels
    const high = Math.max(2, Math.min(12, Math.floor(240 / run.experts.length)));
    const canvas = element("canvas", null, figure, {width: wide * columns, height: high * run.experts.length,
                                                    role: "img", "aria-label": caption});
    const pen = canvas.getContext("2d");
    pen.fillStyle = getComputedStyle(document.body).color;
    run.experts.forEach((layer, y) => layer.mean.forEach((load, x) => {
      if (load === null || most <= 1) return;
      pen.globalAlpha = Math.max(0, (load - 1) / (most - 1));
      pen.fillRect((layer.first + x) * wide, y * high, wide, high);
    }));
  }
}

function addRasters(parent, samples) {
  element("p", `${samples[0].before.length > 0 ? "The model read the bins before the line. " : ""}A row is a neuron, a ` +
          "column a time bin.", parent, {class: "hint"});
  for (const sample of samples) {
    element("h3", data.runs.length > 1 ? `${sample.run}, step ${sample.step}` : `Step ${sample.step}`, parent);
    const pair = element("div", null, parent, {class: "bar"});
    if (sample.real.length > 0) addRaster(pair, "Recording", sample.before, sample.real);
    addRaster(pair, "Model", sample.before, sample.made);
  }
}

function addSamples() {
  const samples = data.runs.flatMap((run) => run.samples.map((sample) => ({...sample, run: run.name})));
  const prompts = [...new Set(samples.map((sample) => sample.prompt))];
  if (prompts.length === 0) return;
  const made = section("Samples", "samples");
  let body = null;
  const draw = (prompt) => {
    if (body) body.remove();
    body = element("div", null, made, {class: "frame"});
    const chosenSamples = samples.filter((sample) => sample.prompt === prompt).sort((a, b) => b.step - a.step);
    const rasters = chosenSamples.filter((sample) => sample.made), texts = chosenSamples.filter((sample) => !sample.made);
    if (rasters.length > 0) addRasters(body, rasters);
    const rows = texts.map((sample) => [sample.run, sample.step, sample.text.trimEnd()]);
    if (rows.length > 0) table(body, ["run", "step", "text"], rows).classList.add("texts");
  };
  const bar = element("div", null, made, {class: "bar"});
  const choices = prompts.map((prompt) => [prompt, prompt === "" ? "(empty)" : prompt]);
  draw(select(bar, "prompt", "sample-prompt", choices, draw));
}

// --- the whole ---------------------------------------------------------------

function drawAll() {
  const zoomed = charts.loss && charts.loss.isZoomed("x") ? charts.loss.xAxisRange() : null;
  const place = window.scrollY;
  for (const [key, graph] of Object.entries(charts)) {
    graph.destroy();
    delete charts[key];
  }
  if (root) root.remove();
  root = element("main", null, document.body);
  element("h1", data.title, root);
  const parts = [addNotes, addOverview, addCurves, addExperts, addPlan, addMixture, addSamples, addEvents, addJobs,
                 addConfiguration, addOrigin];
  for (const add of parts) add();
  element("footer", data.footer, root);
  if (zoomed) for (const graph of Object.values(charts)) graph.updateOptions({dateWindow: zoomed});
  window.scrollTo(0, place);
  window.hearthReport = {charts, data};
}

// Follows the server of a live page. One that has ended is said once, and asked again.
async function follow() {
  const text = async (path) => {
    const answer = await fetch(path);
    if (!answer.ok) throw new Error(answer.statusText);
    return answer.text();
  };
  let version = data.version;
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, 2000));
    try {
      const newest = await text("/version");
      if (newest !== version) {
        data = JSON.parse(await text("/data"));
        version = data.version;
        while (shown.length < data.runs.length) shown.push(true);
        drawAll();
      }
      document.body.dataset.server = "there";
    } catch (error) {
      document.body.dataset.server = "gone";
    }
  }
}

drawAll();
darkDesktop.addEventListener("change", drawAll);
document.body.dataset.drawn = "yes";
if (document.body.dataset.live === "yes") follow();
})();
